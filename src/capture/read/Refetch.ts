/**
 * Asks the API for named records, in a way that tells "it is not there" from "you were not answered".
 *
 * Invariants
 * 1. An answer counts only if the controls, records known to be alive, come back first and last, nothing unasked does and
 *    every row is readable   (D12, D13, D14, D22, I7)
 * 2. Controls are the first and the last id that can be had, and are asked for first and last: an answer in the order of ids,
 *    or in that of the request, lacks one wherever it stops too early   (D22)
 *
 * Gotchas
 * - A refusal is an answer that does not count, and no fault of the stream: its list may be read as ever (D12). What will
 *   pass by itself fails, and is tried again.
 * - Ids are joined by commas: one that holds a comma would be asked for as two others, and be missing. It is not asked for.
 */
import * as Effect from "effect/Effect"
import { parseRow } from "../../domain/Observation.ts"
import { type Priority, Source, type SourceError } from "../../source/Source.ts"
import type { Pending, PendingStatus } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { commitPage, type RunError, type Stream } from "./Pages.ts"

/** Ids of one request, controls included. */
const mostIds = 250
/** Records that one point read may ask for beside its controls. */
export const maxRefetchIds = mostIds - 2

/** Bytes of ids in one address: many proxies refuse addresses of 8 KiB. */
const mostBytes = 6_000
const bytesOf = (ids: ReadonlyArray<string>): number => encodeURIComponent(ids.join(",")).length

/** Whether the API can be asked for it by name. */
export const isQueryable = (id: string): boolean => !id.includes(",")

export interface RefetchResult {
  /** Rows of the asked records, without the controls: what is there is as it is, whether or not absence counts. */
  readonly rows: ReadonlyArray<unknown>
  /** Asked for and not there. */
  readonly absent: ReadonlyArray<string>
  /** Why absence says nothing; null = it counts. */
  readonly inconclusiveReason: string | null
}

/** The answer that is none. */
const inconclusive = (ids: ReadonlyArray<string>, inconclusiveReason: string): RefetchResult => ({
  rows: [],
  absent: ids.filter(isQueryable),
  inconclusiveReason
})

/** Up to two records to ask beside `ids` that were met live by `reading` or later, the last of them first. */
export const findControls = Effect.fnUntraced(function*(stream: Stream, runId: number, ids: ReadonlyArray<string>) {
  const store = yield* Store
  const requested = new Set(ids)
  const found = yield* store.controlIds(stream.key, runId, ids.length + 1)
  const able = found.filter((id) => !requested.has(id) && isQueryable(id))
  return able.length > 1 ? [able.at(-1)!, able[0]!] : able
})

/** After a quiet poll those of the last sweep vouch for an answer: one of them that is gone is found by the next. */
const findRecentControls = Effect.fnUntraced(function*(stream: Stream, runId: number, ids: ReadonlyArray<string>) {
  const met = yield* findControls(stream, runId, ids)
  if (met.length > 0) return met
  const state = yield* (yield* Store).stream(stream.key)
  return yield* findControls(stream, state?.lastSweep?.id ?? 0, ids)
})

export const refetch = Effect.fn("Refetch.run")(function*(
  stream: Stream,
  ids: ReadonlyArray<string>,
  controls: ReadonlyArray<string>,
  priority: Priority
): Effect.fn.Return<RefetchResult, SourceError, Source> {
  const source = yield* Source
  const queryable = ids.filter(isQueryable)
  if (queryable.length === 0) return { rows: [], absent: [], inconclusiveReason: null }
  if (queryable.length > 1 && bytesOf(queryable) > mostBytes) {
    const middle = Math.ceil(queryable.length / 2)
    const one = yield* refetch(stream, queryable.slice(0, middle), controls, priority)
    const other = yield* refetch(stream, queryable.slice(middle), controls, priority)
    return {
      rows: [...one.rows, ...other.rows],
      absent: [...one.absent, ...other.absent],
      inconclusiveReason: one.inconclusiveReason ?? other.inconclusiveReason
    }
  }
  const [last, first] = controls
  const requested = [...(first === undefined ? [] : [first]), ...queryable, ...(last === undefined ? [] : [last])]
  const missing = new Set(requested)
  const rows: Array<unknown> = []
  const cursors = new Set<string>()
  let cursor: string | null = null
  let broken: string | null = null
  do {
    const page: { readonly results: ReadonlyArray<unknown>; readonly next: string | null } = yield* source.page({
      account: stream.settings.account,
      integration: stream.key.integration,
      model: stream.key.model,
      priority,
      cursor,
      updatedAfter: null,
      ids: requested
    })
    for (const value of page.results) {
      const row = parseRow(stream.processing, value)
      if (!("id" in row)) broken = "a row of the answer has no id"
      else if (!requested.includes(row.id)) broken = "the answer holds records that were not asked for"
      else if (row.id !== first && row.id !== last) rows.push(value)
      if ("id" in row) missing.delete(row.id)
    }
    cursor = page.next
    if (cursor !== null && (cursors.has(cursor) || cursors.size > mostIds)) broken = "the answer does not end"
    if (cursor !== null) cursors.add(cursor)
  } while (cursor !== null && broken === null)
  const inconclusiveReason = broken !== null
    ? broken
    : controls.some((control) => missing.has(control))
    ? "a record known to be alive was not returned either"
    : controls.length === 0 && missing.size > 0
    ? "no live record is known that could show whether ids are answered"
    : null
  return { rows, absent: queryable.filter((id) => missing.has(id)), inconclusiveReason }
}, (answer, _, ids) =>
  Effect.catchIf(
    answer,
    (error) => !error.reason.retryable,
    (error) => Effect.succeed(inconclusive(ids, error.reason._tag))
  ))

/** Pending rows of one status, as many at a time as one point read may ask for. */
export const forEachPending = Effect.fnUntraced(function*<E, R>(
  stream: Stream,
  status: PendingStatus,
  each: (rows: ReadonlyArray<Pending>) => Effect.Effect<void, E, R>
): Effect.fn.Return<void, E | StoreError, R | Store> {
  const store = yield* Store
  let after: string | null = null
  for (;;) {
    const from: string | null = after
    const rows: ReadonlyArray<Pending> = yield* store.transact(
      stream.owner,
      stream.key,
      (tx) => tx.pendingWithStatus(status, from, maxRefetchIds)
    )
    if (rows.length > 0) yield* each(rows)
    if (rows.length < maxRefetchIds) return
    after = rows.at(-1)!.id
  }
})

/**
 * Settles records of which two readings disagreed (P3) by asking for each of them. What the answer leaves open stays
 * pending: the next reading asks again, the next sweep finds what is gone.
 */
export const resolveDisputes = Effect.fn("Refetch.resolveDisputes")(function*(
  stream: Stream,
  runId: number
): Effect.fn.Return<void, RunError, Store | Source> {
  yield* forEachPending(
    stream,
    "disputed",
    Effect.fnUntraced(function*(rows) {
      const ids = rows.map((row) => row.id)
      const answer = yield* refetch(stream, ids, yield* findRecentControls(stream, runId, ids), "confirm")
      if (answer.inconclusiveReason !== null) {
        yield* Effect.logWarning("point re-read did not count").pipe(
          Effect.annotateLogs({
            integration: stream.key.integration,
            model: stream.key.model,
            why: answer.inconclusiveReason
          })
        )
      }
      const absent = answer.inconclusiveReason === null ? answer.absent : []
      yield* commitPage(stream, answer.rows, { id: runId, kind: "poll", backfill: false }, {
        decisive: true,
        finish: (tx, state) => Effect.as(dropResolved(tx, absent), { state, events: [], holds: [] })
      })
    })
  )
})

/**
 * Not there when asked for, and nobody was told that it is: an old live copy said nothing. One that was never known is given
 * up once a whole sweep did not meet it either; a live one is that sweep's (D2).
 */
const dropResolved = Effect.fnUntraced(function*(tx: StreamTx, absent: ReadonlyArray<string>) {
  const heads = yield* tx.heads(absent)
  const rows = yield* tx.pending(absent)
  const swept = tx.state.lastSweep?.id ?? 0
  const isMissed = (id: string) => (rows.get(id)?.runId ?? swept) < swept
  yield* tx.dropPending(absent.filter((id) => {
    const head = heads.get(id)
    return head === undefined ? isMissed(id) : !head.live
  }))
})
