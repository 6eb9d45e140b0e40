/**
 * The table of events: assigns positions, joins each event with its previous content, wakes waiting readers, prunes old rows.
 *
 * Invariants
 * 1. Positions are 1, 2, 3 … and become visible in order: the counter's row stays locked until the commit   (I5, X13)
 * 2. The table has every row after `pruned`, and for each of these the previous row of the same record   (I3)
 * 3. The table has the newest row: a reader that has read everything can prove it with that row's chain   (X14)
 * 4. The table has every row that an unsettled delivery needs, and its previous row
 * 5. The chain is known at `pruned`, at the newest position and at every row between them   (X14, X18)
 * 6. No reader receives a row that another program or the disk has changed after it was written
 *
 * Gotchas
 * - A row at or before `pruned` is kept while it is the latest row of its record (`Store.records` returns it) or while a delivery needs
 *   it. `readLog` does not return it.
 * - A row of an erased stream no longer belongs to a record: it is deleted once `pruned` has passed it. The row at `pruned` stays,
 *   because `positionBefore` reads its time: a reader may start right after that row.
 * - The delete of a forgotten record is read without `before`: a reader may get it while earlier rows still have their content.
 * - If the API erased a record, its delete stays. Its earlier rows keep their positions, versions and ids, and lose the rest   (D11)
 * - `noteRemoval` locks the counter, which `prune` locks before rows of the log. So it is called before a transaction locks such rows.
 * - `rewrite` replaces content with more redacted content. Chains do not depend on content, so they stay; sums are computed again.
 * - The program computes chains under the counter's lock. If the statement that takes the lock read the last chain in a
 *   subquery, it would get the chain from before its wait (PostgreSQL, READ COMMITTED).
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { chainOf, genesis } from "../../domain/ChangeEvent.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import type { LogFilter, LogQuery, LogSearch } from "../EventLog.ts"
import type { Store, StoreError } from "../Store.ts"
import type { Head } from "../StreamRecords.ts"
import type { LogContent, RecordWrite, RewrittenContent } from "../StreamTx.ts"
import * as Checksum from "./Checksum.ts"
import { contentSum, type EventRow, rowSum, summedColumns } from "./Checksum.ts"
import type { Row } from "./Columns.ts"
import type { ContentCipher } from "./ContentCipher.ts"
import * as Locks from "./Locks.ts"
import * as Notifier from "./Notifier.ts"
import { inBatches, newEvents, rowsPerStatement, toLogEntry } from "./Rows.ts"
import { among, insertion } from "./RowValues.ts"
import { AllowLongStatement, toStoreError, withRetry } from "./SqlRetry.ts"

/** The stream key of rows whose stream was erased. */
const erasedStream = 0

/** Positions per transaction of `prune`. */
const pruneSpan = 500

/** Erased records per transaction of `purgeErased`. */
const recordsPerPurge = 50

interface Counter {
  readonly newest: number
  readonly chain: string
  readonly pruned: number
  readonly prunedChain: string
}
const emptyLog: Counter = { newest: 0, chain: genesis, pruned: 0, prunedChain: genesis }

/** Null if the log ends before this position, or the position is pruned. `found`: the chain in the row itself. */
const chainAt = (
  { chain, newest, pruned, prunedChain }: Counter,
  position: number,
  found: string | undefined
): string | null => {
  if (position === newest) return chain
  if (position === pruned) return prunedChain
  return position > pruned && position < newest ? found ?? null : null
}

/** `before`: only what is older than this time (our clock, in ms) is deleted. `upTo`: the last position that may be deleted. */
type Retention = Parameters<Store["Service"]["prune"]>[0]

/** Sums of a row as it is stored. */
const sumsOf = (row: Row) => ({
  content_sum: contentSum(typeof row["content"] === "string" ? row["content"] : null),
  row_sum: rowSum(row)
})

interface AtPosition {
  readonly position: number
}
const positionsOf = (rows: ReadonlyArray<AtPosition>) => rows.map(({ position }) => position)

/** Ids of the rules that were applied to a row's content, and to the content of the record's previous row. */
interface RedactionRow {
  readonly redaction: string | null
  readonly before_redaction: string | null
}

const toLogContent = (row: EventRow): LogContent => {
  const { before, before_redaction, content, redaction } = row as EventRow & RedactionRow
  const { changes, kind, remoteId, transitions } = newEvents.fromRow(row)
  return {
    position: Number(row.position),
    kind,
    remoteId,
    changes,
    transitions,
    redaction,
    after: content === null ? null : { content, redaction },
    before: before === null ? null : { content: before, redaction: before_redaction }
  }
}

export const make = (sql: SqlClient, cipher: ContentCipher) => {
  const { checkedRows, sealed } = Checksum.make(cipher)
  const appended = Notifier.make()
  const locks = Locks.make(sql)
  const summed = (table: string) => sql.literal(summedColumns.map((name) => `${table}.${name}`).join(", "))
  const counterColumns = sql.literal(`c.position AS newest, c.chain, c.pruned, c.pruned_chain AS "prunedChain"`)
  const counterWith = (lock: Fragment) =>
    Effect.map(
      sql<Counter>`SELECT ${counterColumns} FROM log_counter c ${lock}`,
      ([row]) => row ?? emptyLog
    )
  const counter = counterWith(sql.literal(""))
  /** The counter as of the last commit; no other transaction appends until this one commits. */
  const lockedCounter = counterWith(locks.exclusive)

  /** Inside a transaction: appends the events, returns the heads with the position of their last event. */
  const append = Effect.fnUntraced(function*(stream: number, records: ReadonlyArray<RecordWrite>) {
    const count = records.reduce((sum, record) => sum + record.events.length, 0)
    if (count === 0) return records.map((record) => record.head)
    const now = yield* Clock.currentTimeMillis
    const traceparent = yield* Tracing.traceparent
    const traced = traceparent === null ? {} : { traceparent }
    let { chain, newest: position } = yield* lockedCounter
    const rows: Array<Record<string, unknown>> = []
    const heads = records.map(({ events, head, redaction = null, silent = false }): Head => {
      let previous = head.position
      for (const event of events) {
        position += 1
        chain = chainOf(chain, event.eventId)
        const row = sealed({ ...newEvents.toRow(event), stream, position, previous, chain, appended_at: now })
        rows.push({ ...row, ...sumsOf(row), ...traced, silent: Number(silent), redaction })
        previous = position
      }
      return { ...head, position: previous }
    })
    yield* inBatches(rows, (batch) => sql`INSERT INTO events ${insertion(sql, batch)}`)
    yield* sql`UPDATE log_counter SET position = ${position}, chain = ${chain}`
    yield* sql.afterCommit(appended.give)
    return heads
  }, toStoreError("append"))

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
   * Reads rows with the previous content of their records, in order, and checks them. `positions`: the SQL that follows `e.position` in
   * the condition, such as `IN (…)`.
   */
  const eventsAt = (positions: Fragment) =>
    sql<EventRow>`
      SELECT e.position, e.chain, s.integration, s.model, ${newEvents.columns("e")},
        e.previous, e.traceparent, e.content_sum, e.row_sum, p.content AS before, p.content_sum AS before_sum
      FROM events e
      JOIN streams s ON s.key = e.stream
      LEFT JOIN events p ON p.position = e.previous AND e.kind <> 'created' AND (e.reason IS NULL OR e.reason <> 'forgotten')
      WHERE e.position ${positions}
      ORDER BY e.position`.pipe(Effect.flatMap(checkedRows))

  const isOneOf = (column: string, values: ReadonlyArray<string> | undefined) =>
    values === undefined ? [] : [values.length === 0 ? sql.literal("1 = 0") : sql.in(column, values)]

  const streamsOf = ({ integrations, models }: LogFilter) => [
    ...isOneOf("integration", integrations),
    ...isOneOf("model", models)
  ]

  const conditionsOf = (query: LogFilter) => {
    const { kinds, transitions } = query
    const streams = streamsOf(query)
    return [
      "silent = 0",
      ...streams.length === 0 ? [] : [sql`stream IN (SELECT key FROM streams WHERE ${sql.and(streams)})`],
      ...isOneOf("kind", kinds),
      // inside a value, quotation marks are escaped, so only a transition's own name matches
      ...transitions === undefined
        ? []
        : [sql.or(transitions.map((name) => sql`transitions LIKE ${`%"name":${JSON.stringify(name)}%`}`))]
    ]
  }

  // selects the positions first, from a narrow index, so that a filter does not read the content of skipped rows
  const log = Effect.fnUntraced(function*({ after, limit, upTo, ...query }: LogQuery) {
    const { pruned } = yield* counter
    const filter = [
      sql`position > ${Math.max(after, pruned)}`,
      ...upTo === undefined ? [] : [sql`position <= ${upTo}`],
      ...conditionsOf(query)
    ]
    const rows = yield* eventsAt(sql`IN (
      SELECT position FROM events WHERE ${sql.and(filter)} ORDER BY position LIMIT ${limit})`)
    return rows.map(toLogEntry)
  })

  /** The positions of a record's events in the streams of the query: from its newest row to its oldest. */
  const positionsOfRecord = (id: string, query: LogFilter) => {
    const streams = streamsOf(query)
    return sql`(
      WITH RECURSIVE past (position, previous) AS (
        SELECT e.position, e.previous FROM heads h JOIN events e ON e.position = h.position
        WHERE h.id = ${id} AND h.stream IN (
          SELECT key FROM streams WHERE ${streams.length === 0 ? sql.literal("1 = 1") : sql.and(streams)})
        UNION ALL
        SELECT e.position, e.previous FROM past JOIN events e ON e.position = past.previous
      ) SELECT position FROM past)`
  }

  const search = Effect.fnUntraced(function*({ before, id, limit, positions, ...query }: LogSearch) {
    const { newest, pruned } = yield* counter
    const end = Math.min(before ?? newest + 1, newest + 1)
    const floor = id === undefined ? Math.max(pruned, end - 1 - positions) : pruned
    const filter = [
      sql`position > ${floor}`,
      sql`position < ${end}`,
      ...id === undefined ? [] : [sql`position IN ${positionsOfRecord(id, query)}`],
      ...conditionsOf(query)
    ]
    const rows = yield* eventsAt(sql`IN (
      SELECT position FROM events WHERE ${sql.and(filter)} ORDER BY position DESC LIMIT ${limit})`)
    const entries = rows.map(toLogEntry).toReversed()
    const reached = entries.length < limit ? floor + 1 : entries.at(-1)!.position
    return { entries, next: reached > pruned + 1 ? reached : null }
  })

  const echoesOf: Store["Service"]["echoesOf"] = ({ after, delivery, positions }) =>
    Effect.map(
      eventsAt(sql`IN (
        SELECT position FROM events WHERE position > ${after} AND position <= ${after + positions} AND silent = 0
          AND cause LIKE ${`%"delivery":"${delivery}"%`} ORDER BY position LIMIT 10)`),
      Arr.map(toLogEntry)
    ).pipe(toStoreError("echoes"))

  /** Rows at these positions, however old; rows that were emptied are missing. */
  const at = (positions: ReadonlyArray<number>) =>
    inBatches(positions, (some) => eventsAt(among(sql, some))).pipe(
      Effect.map((rows) => rows.filter((row) => row["kind"] === "deleted" || row.content !== null)),
      Effect.map(Arr.map(toLogEntry)),
      withRetry("entries")
    )

  const rangeOf = ({ newest, pruned }: Counter) => ({ oldest: newest === 0 ? 0 : pruned + 1, newest })
  const range = Effect.map(counter, rangeOf)

  // One statement, so that all values are from the same moment. Position 0, which no row has, keeps the list from being empty: the
  // condition would be constant, and SQLite would read the whole table.
  const chains = (positions: ReadonlyArray<number>) =>
    sql<Counter & { removals: number; at: number | null; found: string }>`
      SELECT ${counterColumns}, c.removals, e.position AS at, e.chain AS found
      FROM log_counter c LEFT JOIN events e ON ${sql.in("e.position", [0, ...positions])}`.pipe(
      Effect.map((rows) => {
        const counter = rows[0] ?? emptyLog
        const known = new Map(rows.map(({ at, found }) => [at, found]))
        return {
          ...rangeOf(counter),
          chain: counter.chain,
          removals: Number(rows[0]?.removals ?? 0),
          chains: positions.map((position) => chainAt(counter, position, known.get(position)))
        }
      })
    )

  // A binary search, because no index has the times: positions after `pruned` have no gaps. As one recursive statement it would
  // take PostgreSQL half a second. A row that is pruned in the meantime is missing, and is treated as earlier.
  const positionBefore = Effect.fnUntraced(function*(time: number) {
    const isEarlier = (position: number) =>
      Effect.map(
        sql<{ at: number }>`SELECT appended_at AS at FROM events WHERE position = ${position}`,
        ([row]) => row === undefined ? null : row.at < time
      )
    const start = yield* counter
    let [low, high] = [start.pruned, start.newest + 1]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if ((yield* isEarlier(middle)) === false) high = middle
      else low = middle
    }
    const { pruned } = yield* counter
    // an earlier row, which is pruned, may also have been appended after `time`
    return low > pruned || low === 0 || (low === pruned && (yield* isEarlier(low)) === true) ? low : null
  })

  const awaitAfter = (after: number): Effect.Effect<void, StoreError> =>
    Effect.flatMap(Effect.zip(appended.times, withRetry("logRange")(range)), ([times, { newest }]) =>
      newest > after
        ? Effect.void
        : appended.after(times).pipe(
          Effect.timeoutOption("1 second"),
          Effect.andThen(awaitAfter(after))
        ))

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
      const deleted = yield* sql`
      DELETE FROM events WHERE position IN (
        SELECT previous FROM events WHERE position > ${pruned} AND position <= ${edge} AND previous IS NOT NULL
          AND previous NOT IN (SELECT position FROM retained_events)
      ) OR (stream = ${erasedStream} AND position >= ${pruned} AND position < ${edge}) RETURNING position`
      return { deleted: deleted.length, done: edge < pruned + pruneSpan }
    },
    sql.withTransaction,
    withRetry("prune")
  )

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
    const rows = yield* sql<AtPosition>`
      SELECT position FROM events WHERE stream = ${stream} ORDER BY position DESC LIMIT ${rowsPerStatement}`
    const positions = positionsOf(rows)
    if (positions.length === 0) return 0
    yield* sql`DELETE FROM events WHERE position ${among(sql, positions)} AND position <= ${
      Math.min(pruned, newest) - 1
    }`
    yield* sql`
      UPDATE events SET ${emptied}, stream = ${erasedStream}, previous = NULL, id = ''
      WHERE position ${among(sql, positions)}`
    return positions.length
  })

  /** Inside a transaction: rows of a stream before a position, the newest first, with the content before each. */
  const contentsBefore = Effect.fnUntraced(function*(stream: number, before: number, limit: number) {
    // one range of the index per value of `silent`, so that neither sorts the positions of the whole stream
    const some = (silent: 0 | 1) =>
      sql`SELECT position FROM (
        SELECT position FROM events WHERE stream = ${stream} AND silent = ${silent} AND position < ${before}
        ORDER BY position DESC LIMIT ${limit}) AS some_${sql.literal(String(silent))}`
    const positions = yield* sql<AtPosition>`${some(0)} UNION ALL ${some(1)} ORDER BY position DESC LIMIT ${limit}`
    const rows = yield* inBatches(positions, (some) =>
      sql<EventRow & RedactionRow>`
        SELECT ${summed("e")}, e.content, e.content_sum, e.row_sum, e.redaction,
          p.content AS before, p.content_sum AS before_sum, p.redaction AS before_redaction
        FROM events e LEFT JOIN events p ON p.position = e.previous
        WHERE e.position ${among(sql, positionsOf(some))} ORDER BY e.position DESC ${locks.exclusiveOf("e")}`)
    return Arr.map(yield* checkedRows(rows), toLogContent)
  }, toStoreError("logContents"))

  /** Inside a transaction: replaces content, except in rows that have been emptied since. */
  const rewrite = Effect.fnUntraced(function*(rewritten: ReadonlyArray<RewrittenContent>) {
    for (const { after, changes, position, redaction, remoteId, transitions } of rewritten) {
      const [row] = yield* sql<Row>`SELECT ${summed("e")}, e.row_sum FROM events e
        WHERE e.position = ${position} AND (e.content IS NOT NULL OR e.row_sum IS NOT NULL)`
      if (row === undefined) continue
      const next = { remote_id: remoteId, ...sealed({ position, content: after, changes, transitions }) }
      const sums = row["row_sum"] === null ? {} : sumsOf({ ...row, ...next })
      const values: Record<string, unknown> = { ...next, ...sums, redaction }
      yield* sql`UPDATE events SET ${sql.update(values, ["position"])} WHERE position = ${position}`
    }
  }, toStoreError("rewriteLog"))

  return {
    append,
    log,
    search,
    echoesOf,
    at,
    range,
    chains,
    positionBefore,
    awaitAfter,
    noteRemoval,
    empty,
    noteErased,
    prune,
    purgeErased,
    eraseSome,
    contentsBefore,
    rewrite
  }
}

export type EventTable = ReturnType<typeof make>
