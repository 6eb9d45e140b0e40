/**
 * Requests records by id, and decides whether a missing record is really absent or the response is incomplete.
 *
 * Invariants
 * 1. A record is treated as absent only if the response proves that it is complete   (D12, D13, D14, D22, I7). Such a response contains
 *    the controls (records known to be live) and nothing that was not requested, and each of its rows is readable
 * 2. The controls have the smallest and the greatest suitable id, and are requested first and last. So a response that is cut off lacks one
 *    of them, in whatever order it is   (D22)
 * 3. Only a response of one page proves that a record is absent: between two pages, a record may move in front of the cursor   (D3)
 *
 * Gotchas
 * - If the API rejects the request, the result is inconclusive, but the stream does not fail: its list may still be readable
 *   (D12). Transient errors are raised, and the request is retried.
 * - Ids are joined by commas. An id that contains a comma would be read as two ids and look absent, so it is not requested.
 */
import * as Effect from "effect/Effect"
import { parseRow } from "../../domain/Observation.ts"
import type { RawRow } from "../../domain/RawRow.ts"
import { isRefused, type Page, type Priority, type Source, type SourceError } from "../../source/Source.ts"
import { type Pending, type PendingStatus, queryFor } from "../../store/Records.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { commitPage } from "../commit/PageCommit.ts"
import { annotate, forEachPart, isUnpaged, requestPage, type RunError, type Stream, transact } from "../Stream.ts"

/** Maximum number of ids in one request, controls included. */
const maxIds = 250
/** Maximum number of pages of one response. A longer response is not read to its end. */
const maxPages = 250
/** Maximum number of records in one refetch, without its controls. */
export const maxRefetchIds = maxIds - 2

/** Maximum bytes of the ids in a URL. Many proxies reject URLs of 8 KiB. */
const maxBytes = 6_000
const bytesOf = (ids: ReadonlyArray<string>): number => encodeURIComponent(ids.join(",")).length

/** True if the API can be queried for this id. */
export const isQueryable = (id: string): boolean => !id.includes(",")

export interface RefetchResult {
  /** Rows of the requested records, without the controls. They are valid even if the result is inconclusive. */
  readonly rows: ReadonlyArray<RawRow>
  /** The last response; undefined if no id was requested, or the API rejected the request. */
  readonly shownBy: Page | undefined
  /** Ids that were requested and are not in the response. */
  readonly absent: ReadonlyArray<string>
  /** Why absence from the response proves nothing; null if the response is conclusive. */
  readonly inconclusiveReason: string | null
}

/** Result of a request that the API rejected. */
const inconclusive = (ids: ReadonlyArray<string>, inconclusiveReason: string): RefetchResult => ({
  rows: [],
  shownBy: undefined,
  absent: ids.filter(isQueryable),
  inconclusiveReason
})

/** Up to two controls to request besides `ids`: the first and the last record that run `runId` or a later one read as live. */
export const findControls = Effect.fnUntraced(function*(stream: Stream, runId: number, ids: ReadonlyArray<string>) {
  const store = yield* Store
  const requested = new Set(ids)
  const found = yield* store.controlIds(stream.key, runId, ids.length + 1)
  const able = found.filter((id) => !requested.has(id) && isQueryable(id))
  return able.length > 1 ? [able[0]!, able.at(-1)!] : able
})

/**
 * Controls that this run has read or, if it has read none, that the last sweep read. If a control was deleted since then, the result is
 * inconclusive.
 */
const findRecentControls = Effect.fnUntraced(function*(stream: Stream, runId: number, ids: ReadonlyArray<string>) {
  const found = yield* findControls(stream, runId, ids)
  if (found.length > 0) return found
  const state = yield* (yield* Store).stream(stream.key)
  return yield* findControls(stream, state?.lastSweep?.id ?? 0, ids)
})

/** The results of two requests as one. */
const both = (one: RefetchResult, other: RefetchResult): RefetchResult => ({
  rows: [...one.rows, ...other.rows],
  shownBy: other.shownBy ?? one.shownBy,
  absent: [...one.absent, ...other.absent],
  inconclusiveReason: one.inconclusiveReason ?? other.inconclusiveReason
})

const inHalves = <E, R>(
  ids: ReadonlyArray<string>,
  request: (ids: ReadonlyArray<string>) => Effect.Effect<RefetchResult, E, R>
): Effect.Effect<RefetchResult, E, R> => {
  const middle = Math.ceil(ids.length / 2)
  return Effect.zipWith(request(ids.slice(0, middle)), request(ids.slice(middle)), both)
}

export const refetch = Effect.fn("Refetch.run")(function*(
  stream: Stream,
  ids: ReadonlyArray<string>,
  controls: ReadonlyArray<string>,
  priority: Priority
): Effect.fn.Return<RefetchResult, SourceError, Source> {
  const queryable = ids.filter(isQueryable)
  if (queryable.length === 0) return { rows: [], shownBy: undefined, absent: [], inconclusiveReason: null }
  if (queryable.length > 1 && bytesOf(queryable) > maxBytes) {
    return yield* inHalves(queryable, (half) => refetch(stream, half, controls, priority))
  }
  const requested = [...controls.slice(0, -1), ...queryable, ...controls.slice(-1)]
  const missing = new Set(requested)
  const rows: Array<RawRow> = []
  const cursors = new Set<string>()
  let cursor: string | null = null
  let shownBy: Page | undefined
  let broken: string | null = null
  let pages = 0
  do {
    const page: Page = yield* requestPage(stream, { priority, cursor, updatedAfter: null, ids: requested })
    shownBy = page
    if (page.results.length > 0) pages++
    for (const one of page.results) {
      const row = parseRow(stream.processing, one)
      if (!("id" in row)) broken = "a row of the response is unreadable"
      else if (!requested.includes(row.id)) broken = "the response contains records that were not requested"
      else if (!controls.includes(row.id)) rows.push(one)
      if ("id" in row) missing.delete(row.id)
    }
    cursor = page.next
    if (cursor !== null && (cursors.has(cursor) || cursors.size >= maxPages - 1)) {
      broken = "the response has no last page"
    }
    if (cursor !== null) cursors.add(cursor)
  } while (cursor !== null && broken === null)
  const inconclusiveReason = broken !== null
    ? broken
    : controls.some((control) => missing.has(control))
    ? "a record known to be live is missing from the response"
    : controls.length === 0 && missing.size > 0
    ? "no live record is known that could serve as a control"
    : null
  const absent = queryable.filter((id) => missing.has(id))
  const result = { rows, shownBy, absent, inconclusiveReason }
  if (pages < 2 || absent.length === 0 || inconclusiveReason !== null) return result
  if (queryable.length === 1 && controls.length < 2) {
    return { ...result, inconclusiveReason: "the response to a request for two records has several pages" }
  }
  const proof = queryable.length === 1
    // with one control, the response has one row
    ? yield* refetch(stream, absent, controls.slice(-1), priority)
    : absent.length < queryable.length
    ? yield* refetch(stream, absent, controls, priority)
    : yield* inHalves(absent, (half) => refetch(stream, half, controls, priority))
  return both({ ...result, absent: [] }, proof)
}, (result, _, ids) =>
  Effect.catchIf(
    result,
    (error) => !error.reason.retryable || isRefused(error),
    (error) => Effect.succeed(inconclusive(ids, error.reason.message))
  ))

/** Calls `each` with the pending rows of one status, in parts that fit into one refetch. */
export const forEachPending = <E, R>(
  stream: Stream,
  status: PendingStatus,
  each: (rows: ReadonlyArray<Pending>) => Effect.Effect<void, E, R>
): Effect.Effect<void, E | StoreError, R | Store> =>
  forEachPart(
    maxRefetchIds,
    (after, limit) => transact(stream, (tx) => tx.pendingWithStatus(status, after, limit)),
    each
  )

/**
 * Refetches disputed records, of which two observations contradict each other (P3). If the result does not decide about a record, the
 * record stays pending: the next run refetches it again, and the next sweep finds out whether it is deleted. Records of a list that the API
 * only returns as a whole cannot be requested; the next run decides about them.
 */
export const resolveDisputes = Effect.fn("Refetch.resolveDisputes")(function*(
  stream: Stream,
  runId: number
): Effect.fn.Return<void, RunError, Store | Source> {
  if (isUnpaged(stream)) return
  yield* forEachPending(
    stream,
    "disputed",
    Effect.fnUntraced(function*(rows) {
      const ids = rows.map((row) => row.id)
      const controls = yield* findRecentControls(stream, runId, ids)
      const { absent, inconclusiveReason, rows: results, shownBy } = yield* refetch(stream, ids, controls, "confirm")
      if (inconclusiveReason !== null) {
        yield* Effect.logWarning("refetch of disputed records was inconclusive; it is repeated by the next run").pipe(
          annotate(stream.key, { why: inconclusiveReason })
        )
      }
      yield* commitPage(stream, {
        results,
        shownBy,
        run: { id: runId, kind: "poll", backfill: false },
        isRefetch: true,
        also: (tx) => dropResolved(tx, inconclusiveReason === null ? absent : [])
      })
    })
  )
})

/**
 * Drops the pending rows of absent records that are not published as live. A record that was never published is dropped only after a
 * complete sweep did not read it either. For a record that is published as live, that sweep decides (D2).
 */
const dropResolved = Effect.fnUntraced(function*(tx: StreamTx, absent: ReadonlyArray<string>) {
  const { heads, pending } = yield* tx.read(queryFor(absent, null))
  const swept = tx.state.lastSweep?.id ?? 0
  /** The row was staged before the last sweep, and that sweep did not read the record. */
  const isMissed = (id: string) => (pending.get(id)?.runId ?? swept) < swept
  yield* tx.dropPending(absent.filter((id) => {
    const head = heads.get(id)
    return head === undefined ? isMissed(id) : !head.live
  }))
})
