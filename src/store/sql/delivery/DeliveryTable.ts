/**
 * The table of deliveries as the engine uses it: deliveries are added from the log and settled. `ClaimTable` claims them.
 *
 * Invariants
 * 1. Per handler and ordering key, at most one delivery is due or running; later ones are waiting   (I5)
 *
 * Gotchas
 * - When a delivery is added, and when one ends, it is checked whether an earlier delivery with the same ordering key is unsettled. A
 *   claim does not check that, so thousands of deliveries that wait for a dead one do not slow it down.
 * - The members of a batch always have the same state, due time and attempts.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import { shardOfScope } from "../../../domain/Shard.ts"
import { type ConfiguredHandler, type Deliveries, deliveryReader, type HandlerState } from "../../Deliveries.ts"
import { type FailedAttempt, halvesOf, isolateAfterCrashes, type NewDelivery } from "../../Delivery.ts"
import type { AttemptOutcome } from "../../DeliveryClaims.ts"
import type { Owner } from "../../Ownership.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import type { EventTable } from "../EventTable.ts"
import type * as Fencing from "../Fencing.ts"
import * as Locks from "../Locks.ts"
import { inBatches, type Integer, rowsPerStatement } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import { toStoreError, withRetry, withRetryAfterRollback } from "../SqlRetry.ts"
import * as BatchTable from "./BatchTable.ts"
import * as CircuitTable from "./CircuitTable.ts"
import * as ClaimTable from "./ClaimTable.ts"
import { assignShards, fromDelivery, fromFailure } from "./DeliveryRows.ts"
import * as TickTable from "./TickTable.ts"

export type OrderingKey = { readonly handler: Integer; readonly ordering_key: string }

const shardsOf = (owners: ReadonlyArray<Owner>) => owners.map(({ scope }) => shardOfScope(scope))

export const make = (
  sql: SqlClient,
  { fence, replaced }: Pick<ReturnType<typeof Fencing.make>, "fence" | "replaced">,
  log: Pick<EventTable, "at">
) => {
  const locks = Locks.make(sql)
  const members = BatchTable.make(sql)
  const claims = ClaimTable.make(sql, members)
  const circuitTable = CircuitTable.make(sql)
  const newest = Effect.map(
    sql<{ position: Integer }>`SELECT position FROM log_counter`,
    ([row]) => Number(row?.position ?? 0)
  )

  // a pattern on the JSON text is safe, because quotes inside a value are escaped
  const removed = sql.literal(`SELECT id FROM integrations WHERE state NOT LIKE '%"state":"active"%'`)
  const writesOff = sql.literal("SELECT plugin FROM switched_off WHERE plugin = '' AND integration = ''")

  // ---- ordering keys

  const skips = (handler: number) =>
    Effect.map(
      sql<{ skips_dead: Integer }>`SELECT skips_dead FROM handlers WHERE key = ${handler}`,
      ([row]) => Number(row?.skips_dead) === 1
    )

  /** For each key: makes the first waiting delivery due, unless an earlier delivery still blocks it. */
  const unblock = Effect.fnUntraced(function*(keys: ReadonlyArray<OrderingKey>) {
    for (const [handler, own] of Map.groupBy(keys, (row) => Number(row.handler))) {
      const earlier = (yield* skips(handler))
        ? sql.literal("")
        : sql`OR (e.state = 'dead' AND e.id < deliveries.id)`
      for (const some of Arr.chunksOf(own.map(({ ordering_key }) => ordering_key), rowsPerStatement)) {
        yield* sql`
          UPDATE deliveries SET state = 'due' WHERE id IN (
            SELECT min(id) FROM deliveries
            WHERE handler = ${handler} AND ordering_key ${among(sql, some)} AND state = 'waiting' GROUP BY ordering_key
          ) AND NOT EXISTS (
            SELECT 1 FROM deliveries e WHERE e.handler = deliveries.handler AND e.ordering_key = deliveries.ordering_key
              AND (e.state IN ('due', 'running') ${earlier})
          )`
      }
    }
  })

  /** Leaves out the deliveries of log rows that were emptied after the dispatcher had read them. */
  const withoutEmptied = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const positions = new Set(deliveries.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const emptied = new Set<number>()
    for (const some of Arr.chunksOf(positions, rowsPerStatement)) {
      const found = yield* sql<{ position: Integer }>`
        SELECT position FROM events WHERE position ${among(sql, some)} AND kind <> 'deleted' AND content IS NULL`
      for (const { position } of found) emptied.add(Number(position))
    }
    return emptied.size === 0
      ? deliveries
      : deliveries.filter(({ subject }) => subject._tag === "Tick" || !emptied.has(subject.position))
  })

  /** Inside a transaction: the rows of new deliveries, in the order in which they are added. */
  const newRows = Effect.fnUntraced(function*(all: ReadonlyArray<NewDelivery>) {
    const deliveries = yield* withoutEmptied(all)
    const { ahead, now } = yield* DatabaseTime.read(sql)
    const rows: Array<ReturnType<typeof fromDelivery>> = []
    for (const [handler, own] of Map.groupBy(deliveries, (delivery) => delivery.handler)) {
      const blocking = ["waiting", "due", "running", ...(yield* skips(handler)) ? [] : ["dead"]]
      const blocked = new Set<string>()
      for (const some of Arr.chunksOf([...new Set(own.map(({ orderingKey }) => orderingKey))], rowsPerStatement)) {
        const found = yield* sql<{ ordering_key: string }>`
          SELECT DISTINCT ordering_key FROM deliveries
          WHERE handler = ${handler} AND ordering_key ${among(sql, some)} AND state IN ${sql.in(blocking)}`
        for (const { ordering_key } of found) blocked.add(ordering_key)
      }
      for (const delivery of own) {
        const state = delivery.dead !== null ? "dead" : blocked.has(delivery.orderingKey) ? "waiting" : "due"
        rows.push(fromDelivery(delivery, { state, createdAt: now - ahead, ahead }))
        if (blocking.includes(state)) blocked.add(delivery.orderingKey)
      }
    }
    return rows
  })

  /** Inside a transaction: adds deliveries, in their order. */
  const insert = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    for (const some of Arr.chunksOf(yield* newRows(deliveries), rowsPerStatement)) {
      yield* sql`INSERT INTO deliveries ${insertion(sql, some)}`
    }
  })

  /** Like `insert`; returns the ids. */
  const insertWithIds = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const ids: Array<number> = []
    for (const some of Arr.chunksOf(yield* newRows(deliveries), rowsPerStatement)) {
      const added = yield* sql<{ id: Integer }>`INSERT INTO deliveries ${insertion(sql, some)} RETURNING id`
      for (const { id } of added) ids.push(Number(id))
    }
    return ids
  })

  // ---- dispatching

  /**
   * Inside a transaction: saves the position from which deliveries still need the log. It is the lowest of: the position of each active
   * handler, the end of each last tick's span, the start of each unsettled tick's span, and the registration of each handler
   * that has no tick yet   (L8). Ticks of a removed integration wait, and the log is not kept for them.
   */
  const noteReader = sql`
    INSERT INTO readers (name, position) SELECT ${deliveryReader}, coalesce(
      (SELECT min(position) FROM (
        SELECT position FROM handlers WHERE active = 1 AND scheduled = 0
        UNION ALL SELECT t.position FROM ticks t JOIN handlers h ON h.key = t.handler
          WHERE h.active = 1 AND t.state = 'on' AND t.integration NOT IN (${removed})
        UNION ALL SELECT position FROM handlers WHERE active = 1 AND scheduled = 1
          AND NOT EXISTS (SELECT 1 FROM ticks t WHERE t.handler = handlers.key)
        UNION ALL SELECT from_position FROM deliveries WHERE state <> 'dead'
          AND handler IN (SELECT key FROM handlers WHERE active = 1 AND scheduled = 1)
          AND integration NOT IN (${removed})
      ) AS needed),
      (SELECT position FROM log_counter)
    ) WHERE TRUE
    ON CONFLICT (name) DO UPDATE SET position = excluded.position`

  const handlers = Effect.gen(function*() {
    const found = CircuitTable.inOurTime(yield* circuitTable.read)
    const rows = yield* sql<{ key: Integer; plugin: string; handler: string; position: Integer; active: Integer }>`
      SELECT key, plugin, handler, position, active FROM handlers ORDER BY key`
    return rows.map((row): HandlerState => ({
      ...row,
      key: Number(row.key),
      position: Number(row.position),
      active: Number(row.active) === 1,
      circuit: found.get(Number(row.key)) ?? HandlerCircuit.closed
    }))
  })

  const registerHandlers: Deliveries["Service"]["registerHandlers"] = Effect.fnUntraced(
    function*(owner, configured) {
      yield* fence(owner)
      const end = yield* newest
      const rows = configured.map(({ from, handler, plugin, scheduled, skipsDeadLetters }: ConfiguredHandler) => ({
        plugin,
        handler,
        skips_dead: skipsDeadLetters ? 1 : 0,
        scheduled: scheduled ? 1 : 0,
        active: 1,
        position: from === "now" ? end : 0
      }))
      yield* sql`UPDATE handlers SET active = 0`
      for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
        yield* sql`INSERT INTO handlers ${insertion(sql, some)} ON CONFLICT (plugin, handler) DO UPDATE SET
          skips_dead = excluded.skips_dead, scheduled = excluded.scheduled, active = 1`
      }
      yield* noteReader
      // a process of an earlier version may have replayed events during the upgrade
      yield* assignShards(sql)
      yield* circuitTable.bringForward
      const parked = yield* sql<
        OrderingKey
      >`SELECT DISTINCT handler, ordering_key FROM deliveries WHERE state = 'waiting'`
      yield* unblock(parked)
      return (yield* handlers).filter(({ active }) => active)
    },
    locks.deliveries,
    withRetry("registerHandlers")
  )

  const dispatch: Deliveries["Service"]["dispatch"] = Effect.fnUntraced(
    function*(owner, { deliveries, handlers, position }) {
      yield* fence(owner)
      yield* insert(deliveries)
      for (const some of Arr.chunksOf(handlers, rowsPerStatement)) {
        yield* sql`UPDATE handlers SET position = ${position} WHERE key ${among(sql, some)}`
      }
      yield* noteReader
    },
    locks.deliveries,
    withRetry("dispatch")
  )

  // ---- settling

  const saveFailedAttempt = Effect.fnUntraced(
    function*(deliveries: ReadonlyArray<number>, { number, ...details }: FailedAttempt) {
      const rows = deliveries.map((delivery) => ({ delivery, number, details: JSON.stringify(details) }))
      for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
        yield* sql`INSERT INTO attempts ${insertion(sql, some)} ON CONFLICT (delivery, number) DO UPDATE SET
        details = excluded.details`
      }
    }
  )

  /** Settles all successful deliveries, the most common outcome, in as few statements as possible. */
  const settleAll = Effect.fnUntraced(function*(ids: ReadonlyArray<number>) {
    for (const some of Arr.chunksOf(ids, rowsPerStatement)) {
      const settled = yield* sql<OrderingKey & { id: Integer; claims: Integer }>`
        DELETE FROM deliveries WHERE id ${among(sql, some)} AND state = 'running'
        RETURNING id, handler, ordering_key, claims`
      const retried = settled.filter(({ claims }) => Number(claims) > 1).map(({ id }) => Number(id))
      if (retried.length > 0) yield* sql`DELETE FROM attempts WHERE delivery ${among(sql, retried)}`
      yield* unblock(settled)
    }
  })

  /** For a delivery that is dead because its process ended: it runs alone again after a redrive or after its batch is halved. */
  const cappedCrashes = sql`CASE WHEN crashes > ${isolateAfterCrashes} THEN ${isolateAfterCrashes} ELSE crashes END`

  const settle = Effect.fnUntraced(function*(
    outcome: Exclude<AttemptOutcome, { readonly _tag: "Settled" }>,
    { ahead, now }: DatabaseTime.DatabaseClock
  ) {
    const { deliveries } = outcome
    for (const some of Arr.chunksOf(deliveries, rowsPerStatement)) {
      const ours = sql`id ${among(sql, some)} AND state = 'running'`
      switch (outcome._tag) {
        case "Released":
          yield* sql`UPDATE deliveries SET state = 'due' WHERE ${ours}`
          break
        case "Retry": {
          const [off] = outcome.stopped === true ? yield* sql`${writesOff}` : []
          // writes were resumed after this write was refused, so no later resume would make it due
          const isResumed = outcome.stopped === true && off === undefined
          const dueAt = isResumed ? now : outcome.dueAt + ahead
          yield* sql`
            UPDATE deliveries SET state = 'due', due_at = ${dueAt}, attempts = ${outcome.attempts},
              stopped = ${off === undefined ? 0 : 1}
            WHERE ${ours}`
          break
        }
        case "Dead": {
          const { failure } = outcome.failedAttempt
          const dead = yield* sql<OrderingKey>`
            UPDATE deliveries SET state = 'dead', attempts = ${outcome.attempts}, failure = ${fromFailure(failure)},
              died_at = ${failure.at}, crashes = ${cappedCrashes}
            WHERE ${ours} RETURNING handler, ordering_key`
          yield* unblock(dead)
          break
        }
        case "Split":
          break
      }
    }
    if (outcome._tag === "Split") {
      for (const { batch, members } of halvesOf(outcome.batch, deliveries)) {
        for (const some of Arr.chunksOf(members, rowsPerStatement)) {
          yield* sql`
            UPDATE deliveries SET state = 'due', due_at = ${outcome.dueAt + ahead}, attempts = 0,
              batch = ${batch}, crashes = ${cappedCrashes}
            WHERE id ${among(sql, some)} AND state = 'running'`
        }
      }
      yield* members.remember(deliveries)
    }
    if (outcome._tag !== "Released") yield* saveFailedAttempt(deliveries, outcome.failedAttempt)
  })

  // ---- attempting

  const takeShards: Deliveries["Service"]["takeShards"] = Effect.fnUntraced(
    function*(owners, continued = [], blocking = []) {
      const lost = yield* replaced(owners)
      const shards = shardsOf(owners.filter((owner) => !lost.includes(owner)))
      if (shards.length > 0) {
        const crash = continued.length === 0
          ? sql.literal("1")
          : sql`CASE WHEN shard IN ${sql.in(shardsOf(continued))} THEN 0 ELSE 1 END`
        for (const some of Arr.chunksOf(blocking, rowsPerStatement)) {
          yield* sql`
            UPDATE deliveries SET state = 'due', crashes = crashes + 1
            WHERE id ${among(sql, some)} AND state IN ('due', 'running') AND shard IN ${sql.in(shards)}`
        }
        yield* sql`
          UPDATE deliveries SET state = 'due', crashes = crashes + ${crash}
          WHERE state = 'running' AND shard IN ${sql.in(shards)}`
      }
      return lost
    },
    locks.deliveries,
    withRetry("takeShards")
  )

  /** The outcomes of attempts, without those of deliveries in the shards of `lost`. */
  const withoutLost = Effect.fnUntraced(function*(
    outcomes: ReadonlyArray<AttemptOutcome>,
    lost: ReadonlyArray<Owner>
  ) {
    if (lost.length === 0) return outcomes
    const ids = outcomes.flatMap(({ deliveries }) => deliveries)
    const found = yield* inBatches(ids, (some) =>
      sql<{ id: Integer }>`
        SELECT id FROM deliveries WHERE id ${among(sql, some)} AND shard IN ${sql.in(shardsOf(lost))}`)
    const left = new Set(found.map(({ id }) => Number(id)))
    return outcomes.filter(({ deliveries }) => !deliveries.some((id) => left.has(id)))
  })

  const settleAndClaim: Deliveries["Service"]["settleAndClaim"] = Effect.fnUntraced(
    function*(owners, outcomes, requests) {
      const lost = yield* replaced(owners)
      const ours = yield* withoutLost(outcomes, lost)
      const before = yield* circuitTable.read
      yield* settleAll(ours.flatMap(({ _tag, deliveries }) => _tag === "Settled" ? deliveries : []))
      for (const outcome of ours) if (outcome._tag !== "Settled") yield* settle(outcome, before)
      const shards = shardsOf(owners.filter((owner) => !lost.includes(owner)))
      const state = yield* circuitTable.apply(before, ours)
      const { claimed, isolatedDue, next } = yield* claims.claim(requests, shards, state.circuits, state.now)
      return {
        claimed,
        isolatedDue,
        next: next === null ? null : next - state.ahead,
        lost,
        circuits: CircuitTable.inOurTime(state)
      }
    },
    locks.deliveries,
    // after a lost connection, the claims may be committed, so the caller must check
    withRetryAfterRollback("settleAndClaim")
  )

  const running: Deliveries["Service"]["running"] = (owners) =>
    withRetry("running")(
      Effect.map(
        sql<{ id: Integer; shard: Integer }>`
          SELECT id, shard FROM deliveries WHERE state = 'running' AND shard IN ${sql.in(shardsOf(owners))}`,
        (rows) => rows.map(({ id, shard }) => ({ id: Number(id), shard: Number(shard) }))
      )
    )

  return {
    insertWithIds: (deliveries: ReadonlyArray<NewDelivery>) => toStoreError("insert")(insertWithIds(deliveries)),
    unblock: (keys: ReadonlyArray<OrderingKey>) => toStoreError("unblock")(unblock(keys)),
    handlers: withRetry("handlers")(handlers),
    registerHandlers,
    dispatch,
    dispatchTicks: TickTable.make(sql, { fence }, { newest, noteReader }),
    takeShards,
    settleAndClaim,
    running,
    batches: members.batches,
    entries: log.at
  }
}

export type DeliveryTable = ReturnType<typeof make>
