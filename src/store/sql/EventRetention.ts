/**
 * Deletes and empties rows of the table of events: retention, erasure at the source, erased streams. `pruned`: the position up to which
 * retention has pruned the log (see `EventQueries.ts`).
 *
 * Invariants
 * 1. The table has every row after `pruned`, and for each of these the previous row of the same record   (I3)
 * 2. The table has the newest row: a reader that has read everything can prove it with that row's chain   (X14)
 * 3. The table has every row that an unsettled delivery needs, and its previous row, even after an adoption
 * 4. The chain is known at `pruned`, at the newest position and at every row between them   (X14, X18)
 *
 * Gotchas
 * - A row at or before `pruned` is kept while it is the latest row of its record (`Store.records` returns it) or while a delivery needs
 *   it. `readLog` does not return it.
 * - A row of an erased stream no longer belongs to a record: it is deleted once `pruned` has passed it. The row at `pruned` stays,
 *   because `positionBefore` reads its time: a reader may start right after that row.
 * - If the API erased a record, its `deleted` event stays. Its earlier rows keep their positions, versions and ids, and lose the
 *   rest   (D11)
 * - `noteRemoval` locks the counter. `prune` locks the counter first and rows of the log second, so a transaction calls `noteRemoval`
 *   before it locks such rows.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { logCounter } from "./EventQueries.ts"
import { inBatches, rowsPerStatement } from "./Rows.ts"
import { among, insertion } from "./RowValues.ts"
import { AllowLongStatement, toStoreError, withRetry } from "./SqlRetry.ts"

/** The stream key of rows whose stream was erased. */
const erasedStream = 0

/** Positions per transaction of `prune`. */
const pruneSpan = 500

/** Erased records per transaction of `purgeErased`. */
const recordsPerPurge = 50

/** `before`: only what is older than this time (our clock, in ms) is deleted. `upTo`: the last position that may be deleted. */
export interface Retention {
  readonly before: number
  readonly upTo: number
}

export interface AtPosition {
  readonly position: number
}
export const positionsOf = (rows: ReadonlyArray<AtPosition>) => rows.map(({ position }) => position)

export const make = (sql: SqlClient) => {
  const { counter, lockedCounter } = logCounter(sql)

  /**
   * Runs a statement for the rows that readers get, then for the silent ones, until it has returned `limit` positions. Each of the two is
   * a range of the index `events_stream`: for both together, the database would sort all positions of the stream.
   */
  const inRanges = Effect.fnUntraced(function*(
    stream: number,
    limit: number,
    statement: (range: Fragment, most: number) => Effect.Effect<ReadonlyArray<AtPosition>, SqlError>
  ) {
    const found: Array<AtPosition> = []
    for (const silent of [0, 1]) {
      if (found.length === limit) break
      found.push(...yield* statement(sql`stream = ${stream} AND silent = ${silent}`, limit - found.length))
    }
    return positionsOf(found)
  })

  /** Inside a transaction: notes that the source erased the records whose last events are at these positions. */
  const noteErased = Effect.fnUntraced(function*(positions: ReadonlyArray<number>) {
    const now = yield* Clock.currentTimeMillis
    const rows = positions.map((position): Record<string, unknown> => ({ position, noticed_at: now }))
    yield* inBatches(
      rows,
      (some) => sql`INSERT INTO erasures ${insertion(sql, some)} ON CONFLICT (position) DO NOTHING`
    )
  }, toStoreError("noteErased"))

  /**
   * Moves `pruned` past the rows that retention no longer keeps, by at most `pruneSpan` positions. Deletes each row whose record has a
   * later row at or before `pruned`, unless a delivery needs it. Deletes the rows of erased streams before `pruned`. The latest row of
   * a record stays.
   */
  const pruneSome = Effect.fnUntraced(
    function*({ before, upTo }: Retention) {
      const { newest, pruned } = yield* lockedCounter
      const end = Math.min(upTo, newest, pruned + pruneSpan)
      const [firstKept] = yield* sql<{ position: number | null }>`
      SELECT min(position) AS position FROM events
      WHERE position > ${pruned} AND position <= ${end} AND appended_at >= ${before}`
      const edge = firstKept?.position == null ? end : firstKept.position - 1
      if (edge <= pruned) return { deleted: 0, done: true }
      // reads the row's chain before the row may be deleted
      yield* sql`
      UPDATE log_counter SET pruned = ${edge}, pruned_chain = (SELECT chain FROM events WHERE position = ${edge})`
      yield* sql`
      INSERT INTO retained_events (position, successor)
      SELECT previous, position FROM events WHERE position > ${pruned} AND position <= ${edge} AND previous IS NOT NULL
        AND EXISTS (SELECT 1 FROM deliveries d WHERE d.position IN (events.position, events.previous))`
      // one list of positions: with another condition beside the list, PostgreSQL would read the whole table
      const deleted = yield* sql`
      DELETE FROM events WHERE position IN (
        SELECT previous FROM events WHERE position > ${pruned} AND position <= ${edge} AND previous IS NOT NULL
          AND previous NOT IN (SELECT position FROM retained_events)
        UNION ALL
        SELECT position FROM events WHERE stream = ${erasedStream} AND position >= ${pruned} AND position < ${edge}
      ) RETURNING position`
      return { deleted: deleted.length, done: edge < pruned + pruneSpan }
    },
    sql.withTransaction,
    withRetry("prune")
  )

  /**
   * Inside a transaction: notes which rows of the stream from generations before `generation` are needed by unsettled deliveries.
   * `deleteOlder` then leaves them.
   */
  const retainOlder = Effect.fnUntraced(function*(stream: number, integration: string, generation: number) {
    const delivered = sql`FROM deliveries d JOIN events e ON e.position = d.position
      WHERE d.integration = ${integration} AND e.stream = ${stream} AND e.generation < ${generation}`
    yield* sql`
      INSERT INTO retained_events (position, successor)
      SELECT DISTINCT e.previous, e.position ${delivered} AND e.previous IS NOT NULL
      ON CONFLICT (position) DO UPDATE SET successor = excluded.successor`
    yield* sql`
      INSERT INTO retained_events (position, successor) SELECT DISTINCT e.position, e.position ${delivered}
      ON CONFLICT (position) DO NOTHING`
  }, toStoreError("retainOlder"))

  /**
   * Inside a transaction: deletes at most `limit` of a stream's rows from generations before `generation`; returns how many. Only rows up
   * to `pruned` are searched: `raiseGeneration` has moved it past all rows of older generations.
   */
  const deleteOlder = (stream: number, generation: number, limit: number) =>
    inRanges(stream, limit, (range, most) =>
      sql<AtPosition>`
        DELETE FROM events WHERE position IN (
          SELECT position FROM events
          WHERE ${range} AND position <= (SELECT pruned FROM log_counter) AND generation < ${generation}
            AND position NOT IN (SELECT position FROM retained_events)
          ORDER BY position LIMIT ${most}
        ) RETURNING position`).pipe(Effect.map(({ length }) => length), toStoreError("deleteOlder"))

  /** Deletes rows that were kept for a delivery that is settled now. */
  const pruneRetained = Effect.gen(function*() {
    const done = yield* sql<AtPosition>`
      DELETE FROM retained_events WHERE NOT EXISTS (
        SELECT 1 FROM deliveries d WHERE d.position IN (retained_events.position, retained_events.successor)
      ) RETURNING position`
    yield* inBatches(done, (some) => sql`DELETE FROM events WHERE position ${among(sql, positionsOf(some))}`)
    return done.length
  }).pipe(sql.withTransaction, withRetry("prune"))

  const prune = Effect.fnUntraced(function*(query: Retention) {
    let total = yield* pruneRetained
    while (true) {
      const { deleted, done } = yield* pruneSome(query)
      total += deleted
      if (done) return total
      yield* Effect.yieldNow
    }
  }, Effect.provideService(AllowLongStatement, true))

  /** Empties a row, except for its position, its version and its ids. */
  const emptied = sql.literal(
    "silent = 1, remote_id = NULL, changed_at = NULL, cause = NULL, transitions = '[]', changes = '[]', content = NULL, "
      + "content_sum = NULL, row_sum = NULL"
  )

  /** Inside a transaction that removes content: readers that hold content of the log read it again. */
  const noteRemoval = Effect.asVoid(sql`UPDATE log_counter SET removals = removals + 1`).pipe(
    toStoreError("noteRemoval")
  )

  const empty = (positions: ReadonlyArray<number>) =>
    inBatches(positions, (some) => sql`UPDATE events SET ${emptied} WHERE position ${among(sql, some)}`).pipe(
      toStoreError("empty")
    )

  /** One bounded transaction of `purgeErased`, after position `after`; returns where it stopped, null at the end. */
  const purgeSome = Effect.fnUntraced(
    function*({ before, upTo }: Retention, after: number) {
      const due = yield* sql<AtPosition>`
        SELECT position FROM erasures WHERE position > ${after} AND position <= ${upTo} AND noticed_at < ${before}
        ORDER BY position LIMIT ${recordsPerPurge}`
      const last = due.at(-1)
      if (last === undefined) return { dropped: 0, last: null }
      const rows = yield* sql<AtPosition & { deleted: number }>`
        WITH RECURSIVE past (deleted, position, previous) AS (
          SELECT position, position, previous FROM events WHERE position ${among(sql, positionsOf(due))}
          UNION ALL
          SELECT past.deleted, e.position, e.previous FROM past JOIN events e ON e.position = past.previous
        ) SELECT deleted, position FROM past`
      const inDeliveries = yield* inBatches(
        rows,
        (some) => sql<AtPosition>`SELECT position FROM deliveries WHERE position ${among(sql, positionsOf(some))}`
      )
      const delivered = new Set(positionsOf(inDeliveries))
      const needed = new Set(rows.filter(({ position }) => delivered.has(position)).map(({ deleted }) => deleted))
      const done = positionsOf(due).filter((position) => !needed.has(position))
      const earlier = rows.filter(({ deleted, position }) => position !== deleted && !needed.has(deleted))
      yield* empty(positionsOf(earlier))
      if (done.length > 0) yield* sql`DELETE FROM erasures WHERE position ${among(sql, done)}`
      return { dropped: done.length, last: last.position }
    },
    sql.withTransaction,
    withRetry("purgeErased")
  )

  const purgeErased = Effect.fnUntraced(function*(query: Retention) {
    let total = 0
    for (let after = 0;;) {
      const { dropped, last } = yield* purgeSome(query, after)
      total += dropped
      if (last === null) return total
      after = last
      yield* Effect.yieldNow
    }
  }, Effect.provideService(AllowLongStatement, true))

  /**
   * Inside a transaction: empties the newest rows of a stream except for position and event id, and deletes the rows that
   * readers can no longer get; returns how many rows there were.
   */
  const eraseSome = Effect.fnUntraced(function*(stream: number) {
    const { newest, pruned } = yield* counter
    const positions = yield* inRanges(
      stream,
      rowsPerStatement,
      (range, most) => sql<AtPosition>`SELECT position FROM events WHERE ${range} ORDER BY position DESC LIMIT ${most}`
    )
    if (positions.length === 0) return 0
    yield* sql`DELETE FROM events WHERE position ${among(sql, positions)} AND position <= ${
      Math.min(pruned, newest) - 1
    }`
    yield* sql`
      UPDATE events SET ${emptied}, stream = ${erasedStream}, previous = NULL, id = ''
      WHERE position ${among(sql, positions)}`
    return positions.length
  })

  return {
    noteErased,
    noteRemoval,
    retainOlder,
    deleteOlder,
    empty,
    eraseSome,
    retention: {
      /**
       * Deletes log rows that were appended before `before` (our clock, in ms) and are at or before position `upTo`, except those that retention
       * must keep; returns how many.
       */
      prune,
      /**
       * Removes the content of records that their source erased; their delete events stay. Applies to records whose erasure was
       * noticed before `before` (our clock, in ms), whose delete event is at or before position `upTo`, and that no delivery needs. Returns how
       * many records.
       */
      purgeErased
    }
  }
}
