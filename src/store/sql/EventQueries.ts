/**
 * Reads the table of events: joins each event with its previous content, checks it, and lets readers wait for the next one.
 *
 * Invariants
 * 1. No reader receives a row that another program or the disk has changed after it was written
 *
 * Gotchas
 * - `log` and `search` return no row at or before `pruned`, even if the row is kept, see `EventRetention.ts`.
 * - The delete of a forgotten record is read without `before`: a reader may get it while earlier rows still have their content.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { genesis } from "../../domain/ChangeEvent.ts"
import type { FoundEvents, LogChains, LogFilter, LogQuery, LogSearch } from "../EventLog.ts"
import type { StoreError } from "../StoreError.ts"
import * as Checksum from "./Checksum.ts"
import type { EventRow } from "./Checksum.ts"
import type { ContentCipher } from "./ContentCipher.ts"
import * as Locks from "./Locks.ts"
import { inBatches, newEvents, toLogEntry } from "./Rows.ts"
import { among } from "./RowValues.ts"
import type { Notifier } from "./Signals.ts"
import { withRetry } from "./SqlRetry.ts"

/** The row of `log_counter`: the newest position, the position up to which the log is pruned, and the chains at both. */
interface Counter {
  readonly newest: number
  readonly chain: string
  readonly pruned: number
  readonly prunedChain: string
}
const emptyLog: Counter = { newest: 0, chain: genesis, pruned: 0, prunedChain: genesis }

/** The part of the log that can be read. */
const rangeOf = ({ newest, pruned }: Counter) => ({ oldest: newest === 0 ? 0 : pruned + 1, newest })

/** A transaction that appends or prunes locks the row first, and it stays locked until the commit. */
export const logCounter = (sql: SqlClient) => {
  const locks = Locks.make(sql)
  const columns = sql.literal(`c.position AS newest, c.chain, c.pruned, c.pruned_chain AS "prunedChain"`)
  const counterWith = (lock: Fragment) =>
    Effect.map(
      sql<Counter>`SELECT ${columns} FROM log_counter c ${lock}`,
      ([row]) => row ?? emptyLog
    )
  return {
    /** The columns of `Counter`, of the table `c`. */
    columns,
    counter: counterWith(sql.literal("")),
    /** The counter as of the last commit; no other transaction appends until this one commits. */
    lockedCounter: counterWith(locks.exclusive)
  }
}

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

/** `appended` counts the commits of this process that appended rows. */
export const make = (sql: SqlClient, cipher: ContentCipher, appended: Notifier) => {
  const { checkedRows } = Checksum.make(cipher)
  const { columns, counter } = logCounter(sql)

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
  const readLog = Effect.fnUntraced(function*({ after, limit, upTo, ...query }: LogQuery) {
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

  const searchLog = Effect.fnUntraced(
    function*({ before, from = 0, id, limit, positions, remoteId, ...query }: LogSearch) {
      const { newest, pruned } = yield* counter
      const oldest = Math.max(pruned, from - 1)
      const end = Math.min(before ?? newest + 1, newest + 1)
      const floor = id === undefined ? Math.max(oldest, end - 1 - positions) : oldest
      const filter = [
        sql`position > ${floor}`,
        sql`position < ${end}`,
        ...id === undefined ? [] : [sql`position IN ${positionsOfRecord(id, query)}`],
        ...remoteId === undefined ? [] : [sql`remote_id = ${remoteId}`],
        ...conditionsOf(query)
      ]
      const rows = yield* eventsAt(sql`IN (
      SELECT position FROM events WHERE ${sql.and(filter)} ORDER BY position DESC LIMIT ${limit})`)
      const entries = rows.map(toLogEntry).toReversed()
      const reached = entries.length < limit ? floor + 1 : entries.at(-1)!.position
      const found: FoundEvents = { entries, next: reached > oldest + 1 ? reached : null }
      return found
    }
  )

  const echoesOf = (
    { after, delivery, positions }: { readonly delivery: number; readonly after: number; readonly positions: number }
  ) =>
    Effect.map(
      eventsAt(sql`IN (
        SELECT position FROM events WHERE position > ${after} AND position <= ${after + positions} AND silent = 0
          AND cause LIKE ${`%"delivery":"${delivery}"%`} ORDER BY position LIMIT 10)`),
      Arr.map(toLogEntry)
    )

  /** Rows at these positions, however old; rows that were emptied are missing. */
  const at = (positions: ReadonlyArray<number>) =>
    inBatches(positions, (some) => eventsAt(among(sql, some))).pipe(
      Effect.map((rows) => rows.filter((row) => row["kind"] === "deleted" || row.content !== null)),
      Effect.map(Arr.map(toLogEntry)),
      withRetry("entries")
    )

  const logRange = Effect.map(counter, rangeOf)

  // One statement, so that all values are from the same moment. Position 0, which no row has, keeps the list from being empty: the
  // condition would be constant, and SQLite would read the whole table.
  const chains = (positions: ReadonlyArray<number>) =>
    sql<Counter & { removals: number; at: number | null; found: string }>`
      SELECT ${columns}, c.removals, e.position AS at, e.chain AS found
      FROM log_counter c LEFT JOIN events e ON ${sql.in("e.position", [0, ...positions])}`.pipe(
      Effect.map((rows): LogChains => {
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

  const awaitLog = (after: number): Effect.Effect<void, StoreError> =>
    Effect.flatMap(Effect.zip(appended.times, withRetry("logRange")(logRange)), ([times, { newest }]) =>
      newest > after
        ? Effect.void
        : appended.after(times).pipe(
          Effect.timeoutOption("1 second"),
          Effect.andThen(awaitLog(after))
        ))

  return {
    at,
    queries: {
      /** Rows that are not silent, in position order. */
      readLog,
      /** Events that are not silent, newest first. For people who look for a change; readers use `readLog`. */
      searchLog,
      /** Events that writes of this delivery caused, among the `positions` positions after `after`; oldest first, at most ten. */
      echoesOf,
      /** Oldest kept and newest position. Both are 0 if nothing was ever appended; `oldest` is `newest` + 1 if every row was pruned. */
      logRange,
      /**
       * The range, the chain at the newest position, the number of removals, and the chains at these positions in their order, all read at
       * one moment.
       * A chain is null if the log ends before that position, or if the row after that position is pruned   (X14, X18).
       */
      chains,
      /**
       * The position before the first row that was appended at or after `time` (our clock, in ms); the newest position if there is none. Null
       * if such rows may have been pruned. If the clock was set back, the times of the rows are not in order, and several positions fit: one
       * of them is returned.
       */
      positionBefore
    },
    readers: {
      /** Waits until the log holds rows after `after`. It may take a second to notice another process's append. */
      awaitLog
    }
  }
}
