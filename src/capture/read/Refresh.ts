/**
 * Refetches stale records. A stale record repeats content of another record that has changed, and `updated_after` does not return it for
 * that change. The store keeps the queue of stale records.
 *
 * Invariants
 * 1. A stale record stays in the queue until a conclusive refetch or the start of a sweep, even if the process restarts   (N1)
 * 2. A record that is missing from the response is not inferred to be deleted; the next sweep decides   (I7)
 *
 * Gotchas
 * - If a refetched record has not changed, no other record becomes stale. Otherwise two records whose copies of each other always
 *   differ would refresh each other forever (N7).
 */
import * as Effect from "effect/Effect"
import type { Source } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import { commitPage } from "../commit/PageCommit.ts"
import * as Metrics from "../Metrics.ts"
import { annotate, type RunError, type Stream, transact } from "../Stream.ts"
import { findControls, maxRefetchIds, refetch } from "./Refetch.ts"

/**
 * `more`: the refresh made `maxRefetches` requests, or yielded, and stale records are left. `sweep`: so many records are stale that a
 * sweep is cheaper.
 */
export type RefreshOutcome = "done" | "more" | "sweep"

/** Maximum number of requests in one refresh. A refresh follows each poll; further refreshes run only while no other step is due (N4). */
const maxRefetches = 4

/** `shouldYield` is evaluated between refetches: true leaves the remaining records for later. */
export const refresh = Effect.fn("Refresh.run")(function*(
  stream: Stream,
  shouldYield: Effect.Effect<boolean>
): Effect.fn.Return<RefreshOutcome, RunError, Store | Source> {
  for (let made = 0; made < maxRefetches; made++) {
    const stale = yield* transact(stream, (tx) => tx.takeStale(maxRefetchIds))
    if (stale === "everything") return "sweep"
    if (stale.length === 0 || !(yield* refetchStale(stream, stale))) return "done"
    if (stale.length < maxRefetchIds) return "done"
    if (yield* shouldYield) return "more"
  }
  return "more"
})

/** Returns false if the result was inconclusive; the records then stay stale. */
const refetchStale = Effect.fnUntraced(function*(
  stream: Stream,
  ids: ReadonlyArray<string>
): Effect.fn.Return<boolean, RunError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  const controls = yield* findControls(stream, state?.lastSweep?.id ?? 0, ids)
  const result = yield* refetch(stream, ids, controls, "refresh")
  if (result.inconclusiveReason !== null) {
    yield* Metrics.refreshed(stream.key, "uncounted", ids.length)
    yield* Effect.logWarning("refetch of stale records was inconclusive; it is retried, and the next sweep reads them")
      .pipe(annotate(stream.key, { why: result.inconclusiveReason }))
    return false
  }
  const { rowCounts } = yield* commitPage(stream, {
    results: result.rows,
    shownBy: result.shownBy,
    run: { id: state?.lastRunId ?? 0, kind: "refresh", backfill: false },
    isRefetch: true,
    also: (tx) => tx.markRefreshed(ids)
  })
  const changed = rowCounts.changed + rowCounts.pending
  yield* Metrics.refreshed(stream.key, "changed", changed)
  yield* Metrics.refreshed(stream.key, "unchanged", ids.length - changed)
  return true
})
