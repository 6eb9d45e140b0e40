/**
 * How many deliveries a handler may claim. Its concurrency over all processes limits the number, and so do its circuit and the deliveries
 * that ended a process.
 *
 * Gotchas
 * - All of this is read in the transaction that claims, under the lock of deliveries, so two processes never use the same free slot, and
 *   one trial of an open circuit runs at a time.
 * - A trial needs no row, because it is the only running delivery of the handler. If its process ends, the next owner of its
 *   shard makes the delivery due again, which permits the next trial.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import { deliveryScopes } from "../../../domain/Shard.ts"
import { isolateAfterCrashes } from "../../Delivery.ts"
import type { AttemptOutcome, ClaimRequest } from "../../DeliveryClaims.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import { among } from "../RowValues.ts"

// ---- circuits -----------------------------------------------------------------------------------------------------

type Circuits = ReadonlyMap<number, HandlerCircuit.HandlerCircuit>

/** Times are those of the database's clock, in ms. */
export interface CircuitState extends DatabaseTime.DatabaseClock {
  /** The circuits of handlers that failed since their last success, by key of the handler. */
  readonly circuits: Circuits
}

/** The circuits with times of this process's clock. */
export const inOurTime = ({ ahead, circuits }: CircuitState): Circuits =>
  new Map(
    [...circuits].map(([handler, { openUntil, ...circuit }]) => [
      handler,
      { ...circuit, openUntil: openUntil === null ? null : openUntil - ahead }
    ])
  )

/** The circuits of handlers, which all processes share. Only handlers that failed since their last success have a row. */
export const makeCircuits = (sql: SqlClient) => {
  const time = DatabaseTime.make(sql)

  const read = Effect.gen(function*() {
    const ours = yield* Clock.currentTimeMillis
    const rows = yield* sql<
      { now: number; handler: number | null; failed: string; openings: number; openUntil: number | null }
    >`SELECT ${yield* time} AS now, c.handler, c.failed, c.openings, c.open_until AS "openUntil"
      FROM (SELECT 1 AS one) AS one LEFT JOIN handler_circuits c ON 1 = 1`
    const now = rows[0]!.now
    const circuits = new Map(
      rows.flatMap(({ failed, handler, openUntil, openings }) =>
        handler === null ? [] : [[handler, { failed: JSON.parse(failed), openings, openUntil }] as const]
      )
    )
    return { now, ahead: now - ours, circuits } satisfies CircuitState
  })

  const save = (handler: number, { failed, openings, openUntil }: HandlerCircuit.HandlerCircuit) =>
    failed.length === 0
      ? sql`DELETE FROM handler_circuits WHERE handler = ${handler}`
      : sql`INSERT INTO handler_circuits ${
        sql.insert({ handler, failed: JSON.stringify(failed), openings, open_until: openUntil })
      }
        ON CONFLICT (handler) DO UPDATE SET
          failed = excluded.failed, openings = excluded.openings, open_until = excluded.open_until`

  return {
    read,
    /** Inside a transaction that holds the lock of deliveries: applies the results of attempts, in their order, to the result of `read`. */
    apply: Effect.fnUntraced(function*(before: CircuitState, outcomes: ReadonlyArray<AttemptOutcome>) {
      const circuits = new Map(before.circuits)
      for (const { result } of outcomes) {
        if (result === undefined) continue
        const circuit = circuits.get(result.handler) ?? HandlerCircuit.closed
        circuits.set(result.handler, HandlerCircuit.afterAttempt(circuit, result.failed, before.now))
      }
      for (const [handler, circuit] of circuits) {
        if (circuit === HandlerCircuit.closed) circuits.delete(handler)
        if (circuit !== (before.circuits.get(handler) ?? HandlerCircuit.closed)) yield* save(handler, circuit)
      }
      return { ...before, circuits } satisfies CircuitState
    }),
    /** Inside a transaction that holds the lock of deliveries: permits the next trial of every handler at once. */
    bringForward: Effect.flatMap(
      time,
      (now) => sql`UPDATE handler_circuits SET open_until = ${now} WHERE open_until > ${now}`
    )
  }
}

// ---- limits -------------------------------------------------------------------------------------------------------

export type Shards = ReadonlyArray<number>

/** Time until the next look while other processes use up the handler's concurrency, or run its trial, in ms. */
export const pollMillis = 250
/** Time until the next look whether an attempt in another process has closed an open circuit, in ms. */
const circuitPollMillis = 1_000

/** Whether these are all shards, so that no other process owns any. */
export const areAll = (shards: Shards): boolean => shards.length === deliveryScopes.length

/** The due deliveries of a handler in one shard; times are the database's clock, in ms. */
export interface DueShard {
  readonly shard: number
  readonly first: number
  readonly last: number
}

export const make = (sql: SqlClient) => {
  const excluding = ({ excludedIntegrations, onlyIntegrations, subject }: ClaimRequest) => {
    const none = sql.literal("")
    const except = excludedIntegrations.length === 0
      ? none
      : sql`AND integration NOT IN ${sql.in(excludedIntegrations)}`
    const only = onlyIntegrations === undefined ? none : sql`AND integration ${among(sql, onlyIntegrations)}`
    // only the delivery of an event has a position
    const kind = sql.literal(`AND position IS ${subject === "Event" ? "NOT NULL" : "NULL"}`)
    return sql`${except} ${only} ${kind}`
  }

  /**
   * Looks for deliveries of the handler that were running during a crash. `some`: one of them is due or running. `isolatedDue`: one of
   * them is due and must run alone.
   */
  const crashSuspects = Effect.fnUntraced(function*(want: ClaimRequest, shards: Shards, now: number) {
    const [found] = yield* sql<{ some: number; isolated: number }>`
      SELECT count(*) AS some, count(CASE WHEN crashes = ${isolateAfterCrashes} AND state = 'due' THEN 1 END) AS isolated
      FROM deliveries
      WHERE handler = ${want.handler} AND crashes > 0 AND (state = 'running' OR (state = 'due' AND due_at <= ${now}))
        AND shard IN ${sql.in(shards)} ${excluding(want)}`
    return { some: found!.some > 0, isolatedDue: found!.isolated > 0 }
  })

  /** How many deliveries, or batches, of the handler are running in all processes. */
  const runningOf = (handler: number) =>
    Effect.map(
      sql<{ count: number }>`
        SELECT count(DISTINCT batch) + count(CASE WHEN batch IS NULL THEN 1 END) AS count
        FROM deliveries WHERE handler = ${handler} AND state = 'running'`,
      ([running]) => running?.count ?? 0
    )

  /** How many deliveries, or batches, the handler may still claim while other processes own shards too. */
  const freeSlots = Effect.fnUntraced(function*(
    want: ClaimRequest,
    shards: Shards,
    found: ReadonlyArray<DueShard>,
    now: number
  ) {
    const { concurrency, handler } = want
    if (areAll(shards)) return Infinity
    const free = concurrency - (yield* runningOf(handler))
    // The process that frees the last slot would always be the next to take it. In one second of four it leaves the slot to the process
    // of the earliest delivery.
    if (free !== 1 || Math.floor(now / 1000) % 4 > 0) return Math.max(0, free)
    const [earliest] = found.filter(({ shard }) => shards.includes(shard)).sort((a, b) =>
      a.first - b.first || a.shard - b.shard
    )
    if (earliest === undefined) return free
    const { first, shard } = earliest
    const [earlier] = yield* sql`
      SELECT id FROM deliveries
      WHERE handler = ${handler} AND shard NOT IN ${sql.in(shards)} AND state = 'due'
        AND (due_at < ${first} OR (due_at = ${first} AND shard < ${shard})) ${excluding(want)} LIMIT 1`
    return earlier === undefined ? free : 0
  })

  /**
   * How many deliveries, or batches, the handler's circuit permits, and when to look again if these are too few. After the open time one
   * is tried at a time. An attempt that was running when the circuit opened may close it.
   */
  const permitted = Effect.fnUntraced(function*(
    handler: number,
    circuit: HandlerCircuit.HandlerCircuit,
    shards: Shards,
    now: number
  ) {
    if (circuit.openUntil === null) return { permits: Infinity, lookAt: Infinity }
    const isAlone = areAll(shards)
    if (HandlerCircuit.isOpen(circuit, now)) {
      return { permits: 0, lookAt: isAlone ? circuit.openUntil : Math.min(circuit.openUntil, now + circuitPollMillis) }
    }
    return { permits: (yield* runningOf(handler)) === 0 ? 1 : 0, lookAt: isAlone ? Infinity : now + pollMillis }
  })

  return { excluding, crashSuspects, freeSlots, permitted }
}
