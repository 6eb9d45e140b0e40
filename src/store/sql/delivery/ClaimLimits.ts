/**
 * How many deliveries a handler may claim: limits that hold in all processes together, its circuit, and deliveries that ended a process.
 *
 * Gotchas
 * - All of this is read in the transaction that claims, under the lock of deliveries, so two processes never use the same free slot, and
 *   one trial of an open circuit runs at a time.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import { deliveryScopes } from "../../../domain/Shard.ts"
import { isolateAfterCrashes } from "../../Delivery.ts"
import type { ClaimRequest } from "../../DeliveryClaims.ts"
import type { Integer } from "../Rows.ts"
import { among } from "../RowValues.ts"

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
    const kind = subject === undefined ? "" : `AND position IS ${subject === "Event" ? "NOT NULL" : "NULL"}`
    return sql`${except} ${only} ${sql.literal(kind)}`
  }

  /**
   * Looks for deliveries of the handler that were running during a crash. `some`: one of them is due or running. `isolatedDue`: one of
   * them is due and must run alone.
   */
  const crashSuspects = Effect.fnUntraced(function*(want: ClaimRequest, shards: Shards, now: number) {
    const [found] = yield* sql<{ some: Integer; isolated: Integer | null }>`
      SELECT count(*) AS some, sum(CASE WHEN crashes = ${isolateAfterCrashes} AND state = 'due' THEN 1 ELSE 0 END) AS isolated
      FROM deliveries
      WHERE handler = ${want.handler} AND crashes > 0 AND (state = 'running' OR (state = 'due' AND due_at <= ${now}))
        AND shard IN ${sql.in(shards)} ${excluding(want)}`
    return { some: Number(found?.some) > 0, isolatedDue: Number(found?.isolated ?? 0) > 0 }
  })

  /** How many deliveries, or batches, of the handler are running in all processes. */
  const runningOf = (handler: number) =>
    Effect.map(
      sql<{ batches: Integer; single: Integer | null }>`
        SELECT count(DISTINCT batch) AS batches, sum(CASE WHEN batch IS NULL THEN 1 ELSE 0 END) AS single
        FROM deliveries WHERE handler = ${handler} AND state = 'running'`,
      ([running]) => Number(running?.batches ?? 0) + Number(running?.single ?? 0)
    )

  /** How many deliveries, or batches, the handler may still claim while other processes own shards too. */
  const freeSlots = Effect.fnUntraced(function*(
    want: ClaimRequest,
    shards: Shards,
    found: ReadonlyArray<DueShard>,
    now: number
  ) {
    const { concurrency, handler } = want
    if (concurrency === undefined || areAll(shards)) return Infinity
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
