/**
 * Re-reads records that repeat content which was seen changed elsewhere, where `updated_after` would not show it. Who they
 * are, the store knows; a change owes each of them one re-read.
 *
 * Invariants
 * 1. What is owed stays owed, over a restart too, until an answer that counts or until a sweep begins   (N1)
 * 2. Nothing is inferred from what the answer does not show: it waits for the sweep   (I7)
 *
 * Gotchas
 * - A re-read that still shows the old content owes nobody anything: no circle of two models that differ (N7).
 */
import * as Effect from "effect/Effect"
import type { Source } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import * as Metrics from "../Metrics.ts"
import { commitPage, type RunError, type Stream } from "./Pages.ts"
import { findControls, maxRefetchIds, refetch } from "./Refetch.ts"

/** `more`: it gave way or did what it may in one turn. `sweep`: too many are owed, reading everything is cheaper. */
export type RefreshOutcome = "done" | "more" | "sweep"

export interface RefreshOptions {
  /** Requests of this turn. */
  readonly budget: number
  /** Asked between requests: true leaves the rest for later. */
  readonly shouldYield: Effect.Effect<boolean>
}

export const refresh = Effect.fn("Refresh.run")(function*(
  stream: Stream,
  options: RefreshOptions
): Effect.fn.Return<RefreshOutcome, RunError, Store | Source> {
  const store = yield* Store
  for (let spent = 0; spent < options.budget; spent++) {
    const stale = yield* store.transact(stream.owner, stream.key, (tx) => tx.takeStale(maxRefetchIds))
    if (stale === "everything") return "sweep"
    if (stale.length === 0 || !(yield* refetchStale(stream, stale))) return "done"
    if (stale.length < maxRefetchIds) return "done"
    if (yield* options.shouldYield) return "more"
  }
  return "more"
})

/** False: the answer did not count, they are still owed. */
const refetchStale = Effect.fnUntraced(function*(
  stream: Stream,
  ids: ReadonlyArray<string>
): Effect.fn.Return<boolean, RunError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  const controls = yield* findControls(stream, state?.lastSweep?.id ?? 0, ids)
  const answer = yield* refetch(stream, ids, controls, "refresh")
  if (answer.inconclusiveReason !== null) {
    yield* Metrics.refreshed(stream.key, "uncounted", ids.length)
    yield* Effect.logWarning("refresh did not count; it is tried again, at last by the sweep").pipe(
      Effect.annotateLogs({
        integration: stream.key.integration,
        model: stream.key.model,
        why: answer.inconclusiveReason
      })
    )
    return false
  }
  const { rowCounts } = yield* commitPage(
    stream,
    answer.rows,
    { id: state?.lastRunId ?? 0, kind: "refresh", backfill: false },
    {
      decisive: true,
      finish: (tx, state) => Effect.as(tx.markRefreshed(ids), { state, events: [], holds: [] })
    }
  )
  const changed = rowCounts.changed + rowCounts.pending
  yield* Metrics.refreshed(stream.key, "changed", changed)
  yield* Metrics.refreshed(stream.key, "unchanged", ids.length - changed)
  return true
})
