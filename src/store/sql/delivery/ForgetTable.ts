/**
 * Removes the data that is left of records after their delete: earlier rows of the log, deliveries and journals.
 *
 * Invariants
 * 1. Rows of the log lose their content in the transaction that cancels their deliveries: no delivery runs without its event
 *
 * Gotchas
 * - A running handler has the event in memory and continues. If its delivery is retried, a later call cancels it.
 * - The caller also waits for running deliveries of an earlier delete, because their events have the content before the delete.
 * - Rows are emptied even if a reader has not read them. The reader may then get the delete of a record that it does not know, as it
 *   may after retention. A reader that has read them and not used them yet notices the removal, and reads again.
 * - A step that runs once per record is not repeated if the record is allowed again, so its row stays, without the result.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { partitionKey } from "../../../domain/ChangeEvent.ts"
import { keyOf } from "../../../domain/Expectation.ts"
import type { StreamKey } from "../../../domain/Model.ts"
import { recordDedupKeyOf } from "../../Delivery.ts"
import type { ContentCipher } from "../ContentCipher.ts"
import { stepPlace } from "../EncryptionTable.ts"
import type { EventTable } from "../EventTable.ts"
import { textSearch } from "../ForgottenTable.ts"
import * as Locks from "../Locks.ts"
import { inBatches } from "../Rows.ts"
import { among } from "../RowValues.ts"
import type { Signals } from "../Signals.ts"
import { AllowLongStatement } from "../SqlRetry.ts"
import { baseOf, type DeliveryTable, type OrderingKey } from "./DeliveryTable.ts"

interface LinkedRow {
  readonly id: string
  readonly position: number
  readonly kind: string
  readonly reason: string | null
}

interface ResultRow {
  readonly handler: number
  readonly dedup_key: string
  readonly step: string
  readonly result: string
  readonly state: string | null
}

/** Results per statement of the search. */
const resultsPerStatement = 500

export const make = (
  sql: SqlClient,
  signals: Signals["Service"],
  cipher: ContentCipher,
  log: Pick<EventTable, "empty" | "noteRemoval">,
  { unblock }: Pick<DeliveryTable, "unblock">
) => {
  const locks = Locks.make(sql)
  const mayContain = textSearch(sql, cipher)
  const streamOf = ({ integration, model }: StreamKey) =>
    sql`(SELECT key FROM streams WHERE integration = ${integration} AND model = ${model})`
  const base = baseOf(sql)

  const linkedRowsOf = (key: StreamKey, ids: ReadonlyArray<string>) =>
    inBatches(ids, (some) =>
      sql<LinkedRow>`
        WITH RECURSIVE linked (id, position, previous, kind, reason) AS (
          SELECT h.id, e.position, e.previous, e.kind, e.reason FROM heads h JOIN events e ON e.position = h.position
          WHERE h.stream = ${streamOf(key)} AND h.id ${among(sql, some)}
          UNION ALL
          SELECT linked.id, e.position, e.previous, e.kind, e.reason FROM linked JOIN events e ON e.position = linked.previous
        ) SELECT id, position, kind, reason FROM linked`)

  /** The rows before each record's last delete: those that its chain still has, and those that were found by their content. */
  const rowsBeforeDelete = Effect.fnUntraced(function*(
    key: StreamKey,
    ids: ReadonlyArray<string>,
    found: ReadonlyArray<{ readonly id: string; readonly position: number }>
  ) {
    const linkedRows = yield* linkedRowsOf(key, ids)
    const lastDelete = new Map<string, number>()
    for (const { id, kind, position } of linkedRows) {
      if (kind === "deleted") lastDelete.set(id, Math.max(lastDelete.get(id) ?? 0, position))
    }
    const linked = new Set(linkedRows.map(({ id }) => id))
    // The head of a record that was deleted before an adoption links to no row of the new log. Its remaining rows exist only because a
    // delivery needs them, and all of them count as rows before the delete.
    const endOf = (id: string) => linked.has(id) ? lastDelete.get(id) ?? 0 : Infinity
    const before = [...linkedRows, ...found].filter(({ id, position }) => position < endOf(id))
    const deletes = linkedRows.filter(({ id, position, reason }) =>
      reason !== "forgotten" && position === lastDelete.get(id)
    )
    const kept = yield* inBatches(
      ids.filter((id) => !linked.has(id)).map((id) => partitionKey({ ...key, id })),
      (some) =>
        sql<{ position: number }>`
          SELECT position FROM deliveries WHERE ordering_key ${among(sql, some)} AND position IS NOT NULL`
    )
    return {
      positions: [...new Set(before.map(({ position }) => position))],
      /**
       * Events that have the content before the delete. If the head links to rows: the last delete, unless forgetting caused it. If the
       * record was deleted before an adoption: all of its events with deliveries.
       */
      deletes: [...deletes, ...kept].map(({ position }) => position)
    }
  })

  /**
   * Returns the rows whose deliveries are running, among these rows and the deletes after them, and whether a delivery was canceled, so that
   * the next one of its record may be due now.
   */
  const cancelDeliveries = Effect.fnUntraced(function*(
    positions: ReadonlyArray<number>,
    deletes: ReadonlyArray<number>
  ) {
    const canceled = yield* inBatches(positions, (some) =>
      sql<OrderingKey & { id: number }>`
        DELETE FROM deliveries WHERE position ${among(sql, some)} AND state <> 'running'
        RETURNING id, handler, ordering_key`)
    yield* inBatches(
      canceled,
      (some) => sql`DELETE FROM attempts WHERE delivery IN ${sql.in(some.map(({ id }) => id))}`
    )
    yield* unblock(canceled)
    const running = yield* inBatches(
      [...positions, ...deletes],
      (some) =>
        sql<{ position: number }>`SELECT position FROM deliveries WHERE position IN ${
          sql.in(some)
        } AND state = 'running'`
    )
    return { running: running.map(({ position }) => position), canceled: canceled.length > 0 }
  })

  /**
   * The steps of the events themselves. The expectations of writes among them stay, so that their changes are still attributed to the
   * plugin. An expectation has no content.
   */
  const deleteSteps = (positions: ReadonlyArray<number>) =>
    inBatches(
      positions,
      (some) => sql`DELETE FROM journal WHERE ${base.key} IN ${sql.in(some.map((position) => `e${position}`))}`
    )

  /** The results of steps of settled batches that contained one of the events. The steps stay: they were done for other events too. */
  const emptyBatches = Effect.fnUntraced(function*(positions: ReadonlyArray<number>) {
    const first = base.batch("m.batch")
    const batches = yield* inBatches(positions, (some) =>
      sql<{ handler: number; first: string }>`
        SELECT DISTINCT m.handler, ${first} AS first FROM batch_members m
        WHERE m.position ${among(sql, some)} AND NOT EXISTS (
          SELECT 1 FROM deliveries d WHERE d.handler = m.handler
            AND ${base.batch("d.batch")} = ${first})`)
    for (const { first, handler } of batches) {
      yield* sql`
        UPDATE journal SET result = 'null'
        WHERE handler = ${handler} AND done = 1 AND ${base.key} = ${`b${first}`}`
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

  return {
    /**
     * Removes what is left of these records from before their last delete: content and changes in the log, waiting deliveries, dead
     * letters, and journals. `found`: further log rows of these records. `own`: false if the records only repeat a forgotten record.
     * Returns how many of their deliveries are running; call it again once these have ended.
     */
    purgeForgotten: Effect.fnUntraced(
      function*(
        key: StreamKey,
        ids: ReadonlyArray<string>,
        { found, own }: {
          readonly found: ReadonlyArray<{ readonly id: string; readonly position: number }>
          readonly own: boolean
        }
      ) {
        const { deletes, positions } = yield* rowsBeforeDelete(key, ids, found)
        const { canceled, running } = yield* cancelDeliveries(positions, deletes)
        // a running handler that is tried again must not repeat its writes
        yield* deleteSteps(positions.filter((position) => !running.includes(position)))
        yield* emptyBatches(positions)
        if (own) { for (const id of ids) yield* purgeOwn(key, id) }
        yield* log.noteRemoval
        yield* log.empty(positions)
        if (canceled) yield* signals.raise("command")
        return running.length
      },
      locks.deliveries,
      Effect.provideService(AllowLongStatement, true)
    ),
    /**
     * Empties the results of journaled steps that contain the text, whichever events they belong to, because the response to a write
     * contains the record that the write created. Returns how many such steps belong to running deliveries; these keep their results:
     * call it again once the deliveries have ended.
     */
    purgeResults: Effect.fnUntraced(
      function*(integration: string, text: string) {
        let running = 0
        let last: Pick<ResultRow, "handler" | "dedup_key" | "step"> = { handler: -1, dedup_key: "", step: "" }
        for (;;) {
          const rows: ReadonlyArray<ResultRow> = yield* sql<ResultRow>`
            SELECT j.handler, j.dedup_key, j.step, j.result, d.state
            FROM journal j LEFT JOIN deliveries d ON d.id = j.delivery
            WHERE (j.handler, j.dedup_key, j.step) > (${last.handler}, ${last.dedup_key}, ${last.step})
              AND j.done = 1 AND (j.integration IS NULL OR j.integration = ${integration})
              AND ${mayContain("j.result", text)}
            ORDER BY j.handler, j.dedup_key, j.step LIMIT ${resultsPerStatement}`
          // a result that cannot be decrypted cannot be searched
          const opened = yield* cipher.openEach(rows, (row, open) => ({
            ...row,
            result: open(stepPlace(row.handler, row.step), row.result)
          }))
          for (const row of opened) {
            if (row === null || !row.result.includes(text)) continue
            const { dedup_key, handler, state, step } = row
            // its handler has the result in memory, and may store it again with its next step
            if (state === "running") {
              running++
              continue
            }
            yield* sql`
              UPDATE journal SET result = 'null' WHERE handler = ${handler} AND dedup_key = ${dedup_key} AND step = ${step}`
          }
          const end = rows.at(-1)
          if (end === undefined || rows.length < resultsPerStatement) return running
          last = end
        }
      },
      locks.deliveries,
      Effect.provideService(AllowLongStatement, true)
    ),
    /** How many rows of the log, unsettled deliveries and dead letters, and journaled steps a record has. */
    countForgettable: Effect.fnUntraced(function*(key: StreamKey, id: string) {
      const rows = yield* linkedRowsOf(key, [id])
      const [deliveries] = yield* sql<{ count: number }>`
        SELECT count(*) AS count FROM deliveries
        WHERE ordering_key = ${partitionKey({ ...key, id })} AND position IS NOT NULL`
      const dedupKey = recordDedupKeyOf(key.integration, { ...key, id })
      const ofEvents = rows.length === 0
        ? sql``
        : sql`OR ${base.key} IN ${sql.in(rows.map(({ position }) => `e${position}`))}`
      const [steps] = yield* sql<{ count: number }>`
        SELECT count(*) AS count FROM journal WHERE dedup_key = ${dedupKey} ${ofEvents}`
      return { rows: rows.length, deliveries: deliveries!.count, steps: steps!.count }
    })
  }
}
