/**
 * The table of deliveries as the engine uses it: dispatches from the log, makes the interrupted deliveries of shards due again, and runs the
 * transactions of attempts. `OrderedDeliveries` adds deliveries, `ClaimTable` claims them, and `Settlement` saves the outcomes of their
 * attempts.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import { shardOfScope } from "../../../domain/Shard.ts"
import { type ConfiguredHandler, type Deliveries, deliveryReader, type HandlerState } from "../../Deliveries.ts"
import type { NewDelivery } from "../../Delivery.ts"
import type { AttemptOutcome } from "../../DeliveryClaims.ts"
import type { Owner } from "../../State.ts"
import type { EventTable } from "../EventTable.ts"
import type * as Fencing from "../Fencing.ts"
import * as Locks from "../Locks.ts"
import { activeAccount, inBatches, type Integer, rowsPerStatement } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import { toStoreError, withRetry, withRetryAfterRollback } from "../SqlRetry.ts"
import * as BatchTable from "./BatchTable.ts"
import * as CircuitTable from "./CircuitTable.ts"
import * as ClaimTable from "./ClaimTable.ts"
import type { OrderingKey } from "./OrderedDeliveries.ts"
import * as OrderedDeliveries from "./OrderedDeliveries.ts"
import * as Settlement from "./Settlement.ts"
import * as TickTable from "./TickTable.ts"

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
  const { insert, insertWithIds, unblock } = OrderedDeliveries.make(sql)
  const { settle, settleAll } = Settlement.make(sql, members, { unblock })
  const newest = Effect.map(
    sql<{ position: Integer }>`SELECT position FROM log_counter`,
    ([row]) => Number(row?.position ?? 0)
  )

  const removed = sql`SELECT id FROM integrations WHERE ${activeAccount(sql)} = ''`

  // ---- dispatching

  /**
   * Inside a transaction: saves the position from which deliveries still need the log. It is the lowest of: the position of each active
   * handler, the end of each last tick's span, the start of each unsettled tick's span, and the registration of each handler
   * that has no tick yet   (L8). The log is not kept for ticks that wait without limit: those of a removed integration, those of an
   * integration where the configuration turned the plugin off, and those that wait until the API accepts requests (they have a `failure`).
   * Each step of the dispatcher does this, so for each handler it reads an index in the order of the positions, up to the first match.
   * PostgreSQL would join with all rows of the other table if the conditions were `NOT EXISTS`.
   */
  const noteReader = sql`
    INSERT INTO readers (name, position) SELECT ${deliveryReader}, coalesce(
      (SELECT min(position) FROM (
        SELECT position FROM handlers WHERE active = 1 AND scheduled = 0
        UNION ALL SELECT (
            SELECT t.position FROM ticks t
            WHERE t.handler = handlers.key AND t.state = 'on' AND t.integration NOT IN (${removed})
              AND (SELECT 1 FROM deliveries d WHERE d.handler = t.handler AND d.ordering_key = t.integration
                AND d.state <> 'dead' AND d.failure IS NOT NULL LIMIT 1) IS NULL
            ORDER BY t.position LIMIT 1
          ) FROM handlers WHERE active = 1 AND scheduled = 1
        UNION ALL SELECT position FROM handlers WHERE active = 1 AND scheduled = 1
          AND (SELECT 1 FROM ticks t WHERE t.handler = handlers.key LIMIT 1) IS NULL
        UNION ALL SELECT (
            SELECT d.from_position FROM deliveries d
            WHERE d.handler = handlers.key AND d.from_position IS NOT NULL AND d.state <> 'dead' AND d.failure IS NULL
              AND d.integration NOT IN (${removed}) AND (SELECT 1 FROM ticks t
                WHERE t.handler = d.handler AND t.integration = d.integration AND t.state = 'off' LIMIT 1) IS NULL
            ORDER BY d.from_position LIMIT 1
          ) FROM handlers WHERE active = 1 AND scheduled = 1
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

  const tickedBeyondPosition = sql<{ handler: Integer; integration: string; position: Integer }>`
    SELECT t.handler, t.integration, t.position FROM ticks t JOIN handlers h ON h.key = t.handler
    WHERE h.scheduled = 0 AND t.position > h.position`

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
      // a handler that takes events now gets none of the time in which it had no ticks because the configuration had turned it off
      yield* sql`
        UPDATE ticks SET position = ${end}, state = 'absent'
        WHERE state = 'off' AND handler IN (SELECT key FROM handlers WHERE scheduled = 0)`
      yield* noteReader
      yield* circuitTable.bringForward
      const parked = yield* sql<
        OrderingKey
      >`SELECT DISTINCT handler, ordering_key FROM deliveries WHERE state = 'waiting'`
      yield* unblock(parked)
      const ticked = Map.groupBy(yield* tickedBeyondPosition, ({ handler }) => Number(handler))
      return (yield* handlers).filter(({ active }) => active).map((state) => {
        const spans = ticked.get(state.key)?.map(({ integration, position }) =>
          [integration, Number(position)] as const
        )
        return { ...state, ticked: new Map(spans) }
      })
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

  // ---- attempting

  const recoverShards: Deliveries["Service"]["recoverShards"] = Effect.fnUntraced(
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
    withRetry("recoverShards")
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
    recoverShards,
    settleAndClaim,
    running,
    batches: members.batches,
    entries: log.at
  }
}

export type DeliveryTable = ReturnType<typeof make>
