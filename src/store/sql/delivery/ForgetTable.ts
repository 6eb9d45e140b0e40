/**
 * Removes what is left of records after their delete: earlier rows of the log, deliveries and journals.
 *
 * Invariants
 * 1. Rows of the log lose their content in the transaction that cancels their deliveries: no delivery runs without its event
 *
 * Gotchas
 * - A running handler has the event in memory and continues. If its delivery is retried, a later call cancels it.
 * - The caller also waits for running deliveries of an earlier delete, because their events have the content before the delete.
 * - Rows are emptied even if a reader has not read them. The reader may then get the delete of a record that it does not know, as it
 *   may after retention.
 * - A step that runs once per record is not repeated if the record is allowed again, so its row stays, without the result.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { partitionKey } from "../../../domain/ChangeEvent.ts"
import { keyOf } from "../../../domain/Expectation.ts"
import type { StreamKey } from "../../../domain/Model.ts"
import { type Deliveries, recordDedupKeyOf } from "../../Deliveries.ts"
import type { StoreError } from "../../Store.ts"
import type { EventTable } from "../EventTable.ts"
import * as Locks from "../Locks.ts"
import { inBatches, type Integer } from "../Rows.ts"
import { AllowLongStatement, withRetry } from "../SqlRetry.ts"
import type { ExpectationTable } from "../stream/ExpectationTable.ts"
import * as DedupKey from "./DedupKey.ts"
import type { DeliveryTable, OrderingKey } from "./DeliveryTable.ts"
import { writeIdOf } from "./JournalTable.ts"

interface ChainRow {
  readonly id: string
  readonly position: number
  readonly kind: string
  readonly reason: string | null
}

export const make = (
  sql: SqlClient,
  log: Pick<EventTable, "empty">,
  { unblock }: Pick<DeliveryTable, "unblock">,
  expectations: Pick<ExpectationTable, "withdraw">
): Pick<Deliveries["Service"], "purgeForgotten" | "countForgettable"> => {
  const locks = Locks.make(sql)
  const streamOf = ({ integration, model }: StreamKey) =>
    sql`(SELECT key FROM streams WHERE integration = ${integration} AND model = ${model})`
  const base = DedupKey.base(sql)

  const chainsOf = (key: StreamKey, ids: ReadonlyArray<string>) =>
    inBatches(ids, (some) =>
      sql<ChainRow>`
        WITH RECURSIVE chain (id, position, previous, kind, reason) AS (
          SELECT h.id, e.position, e.previous, e.kind, e.reason FROM heads h JOIN events e ON e.position = h.position
          WHERE h.stream = ${streamOf(key)} AND h.id IN ${sql.in(some)}
          UNION ALL
          SELECT chain.id, e.position, e.previous, e.kind, e.reason FROM chain JOIN events e ON e.position = chain.previous
        ) SELECT id, position, kind, reason FROM chain`)

  /** The rows before each record's last delete: those that its chain still has, and those that were found by their content. */
  const rowsBeforeDelete = Effect.fnUntraced(function*(
    key: StreamKey,
    ids: ReadonlyArray<string>,
    found: ReadonlyArray<{ readonly id: string; readonly position: number }>
  ) {
    const chains = yield* chainsOf(key, ids)
    const lastDelete = new Map<string, number>()
    for (const { id, kind, position } of chains) {
      if (kind === "deleted") lastDelete.set(id, Math.max(lastDelete.get(id) ?? 0, Number(position)))
    }
    const before = [...chains, ...found].filter(({ id, position }) => Number(position) < (lastDelete.get(id) ?? 0))
    const deletes = chains.filter(({ id, position, reason }) =>
      reason !== "forgotten" && Number(position) === lastDelete.get(id)
    )
    return {
      positions: [...new Set(before.map(({ position }) => Number(position)))],
      /** The last deletes that were not caused by forgetting: their events have the content before them. */
      deletes: deletes.map(({ position }) => Number(position))
    }
  })

  /** Returns how many deliveries of these rows, and of the deletes after them, are running. */
  const cancelDeliveries = Effect.fnUntraced(function*(
    positions: ReadonlyArray<number>,
    deletes: ReadonlyArray<number>
  ) {
    const canceled = yield* inBatches(positions, (some) =>
      sql<OrderingKey & { id: Integer }>`
        DELETE FROM deliveries WHERE position IN ${sql.in(some)} AND state <> 'running'
        RETURNING id, handler, ordering_key`)
    yield* inBatches(
      canceled,
      (some) => sql`DELETE FROM attempts WHERE delivery IN ${sql.in(some.map(({ id }) => Number(id)))}`
    )
    yield* unblock(canceled)
    const running = yield* inBatches(
      [...positions, ...deletes],
      (some) => sql`SELECT id FROM deliveries WHERE position IN ${sql.in(some)} AND state = 'running'`
    )
    return running.length
  })

  /** The steps of the events themselves. */
  const deleteSteps = Effect.fnUntraced(function*(positions: ReadonlyArray<number>) {
    const steps = yield* inBatches(
      positions,
      (some) =>
        sql<{ handler: Integer; dedup_key: string; step: string; write_name: string | null }>`
        DELETE FROM journal WHERE ${base.key} IN ${sql.in(some.map((position) => `e${position}`))}
        RETURNING handler, dedup_key, step, write_name`
    )
    for (const { dedup_key, handler, step, write_name } of steps) {
      if (write_name !== null) yield* expectations.withdraw(writeIdOf({ handler: Number(handler), step }, dedup_key))
    }
  })

  /** The results of steps of settled batches that contained one of the events. The steps stay: they were done for other events too. */
  const emptyBatches = Effect.fnUntraced(function*(positions: ReadonlyArray<number>) {
    const first = base.batch("m.batch")
    const batches = yield* inBatches(positions, (some) =>
      sql<{ handler: Integer; first: string }>`
        SELECT DISTINCT m.handler, ${first} AS first FROM batch_members m
        WHERE m.position IN ${sql.in(some)} AND NOT EXISTS (
          SELECT 1 FROM deliveries d WHERE d.handler = m.handler
            AND ${base.batch("d.batch")} = ${first})`)
    for (const { first, handler } of batches) {
      yield* sql`
        UPDATE journal SET result = 'null'
        WHERE handler = ${Number(handler)} AND done = 1 AND ${base.key} = ${`b${first}`}`
    }
  })

  const purgeOwn = Effect.fnUntraced(function*(key: StreamKey, id: string) {
    const { integration } = key
    yield* sql`
      UPDATE journal SET result = 'null' WHERE dedup_key = ${
      recordDedupKeyOf(integration, { ...key, id })
    } AND done = 1`
    yield* sql`DELETE FROM expectations WHERE stream = ${streamOf(key)} AND key = ${keyOf(id)}`
    yield* sql`DELETE FROM stale_records WHERE stream = ${streamOf(key)} AND id = ${id}`
    if (key.model !== "ats.candidate") return
    yield* sql`
      DELETE FROM expectations WHERE key = ${`candidate:${id}`}
        AND stream IN (SELECT key FROM streams WHERE integration = ${integration})`
  })

  const purgeForgotten: Deliveries["Service"]["purgeForgotten"] = Effect.fnUntraced(
    function*(key, ids, { found, own }): Effect.fn.Return<number, SqlError | StoreError> {
      const { deletes, positions } = yield* rowsBeforeDelete(key, ids, found)
      const running = yield* cancelDeliveries(positions, deletes)
      yield* deleteSteps(positions)
      yield* emptyBatches(positions)
      if (own) { for (const id of ids) yield* purgeOwn(key, id) }
      yield* log.empty(positions)
      return running
    },
    locks.deliveries,
    Effect.provideService(AllowLongStatement, true),
    withRetry("purgeForgotten")
  )

  const countForgettable: Deliveries["Service"]["countForgettable"] = Effect.fnUntraced(
    function*(key, id) {
      const rows = yield* chainsOf(key, [id])
      const [deliveries] = yield* sql<{ count: Integer }>`
        SELECT count(*) AS count FROM deliveries
        WHERE ordering_key = ${partitionKey({ ...key, id })} AND position IS NOT NULL`
      const dedupKey = recordDedupKeyOf(key.integration, { ...key, id })
      const ofEvents = rows.length === 0
        ? sql``
        : sql`OR ${base.key} IN ${sql.in(rows.map(({ position }) => `e${position}`))}`
      const [steps] = yield* sql<{ count: Integer }>`
        SELECT count(*) AS count FROM journal WHERE dedup_key = ${dedupKey} ${ofEvents}`
      return { rows: rows.length, deliveries: Number(deliveries?.count ?? 0), steps: Number(steps?.count ?? 0) }
    },
    withRetry("countForgettable")
  )

  return { purgeForgotten, countForgettable }
}
