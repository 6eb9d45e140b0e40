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
import type { Source } from "../source/Source.ts"
import { Store } from "../store/Store.ts"
import * as Gauges from "./Gauges.ts"
import { commitPage, type ReadingError, type Stream } from "./Pages.ts"
import { controlsFor, mostAsked, pointRead } from "./PointRead.ts"

/** `more`: it gave way or did what it may in one turn. `sweep`: too many are owed, reading everything is cheaper. */
export type Outcome = "done" | "more" | "sweep"

export interface RefreshOptions {
  /** Requests of this turn. */
  readonly budget: number
  /** Asked between requests: true leaves the rest for later. */
  readonly yieldTurn: Effect.Effect<boolean>
}

export const refresh = Effect.fn("Refresh.run")(function*(
  stream: Stream,
  options: RefreshOptions
): Effect.fn.Return<Outcome, ReadingError, Store | Source> {
  const store = yield* Store
  for (let spent = 0; spent < options.budget; spent++) {
    const owed = yield* store.transact(stream.owner, stream.key, (tx) => tx.takeOwed(mostAsked))
    if (owed === "everything") return "sweep"
    if (owed.length === 0 || !(yield* reread(stream, owed))) return "done"
    if (owed.length < mostAsked) return "done"
    if (yield* options.yieldTurn) return "more"
  }
  return "more"
})

/** False: the answer did not count, they are still owed. */
const reread = Effect.fnUntraced(function*(
  stream: Stream,
  ids: ReadonlyArray<string>
): Effect.fn.Return<boolean, ReadingError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  const controls = yield* controlsFor(stream, state?.lastSweep?.id ?? 0, ids)
  const answer = yield* pointRead(stream, ids, controls, "refresh")
  if (answer.doubt !== null) {
    yield* Gauges.refreshed(stream.key, "uncounted", ids.length)
    yield* Effect.logWarning("refresh did not count; it is tried again, at last by the sweep").pipe(
      Effect.annotateLogs({ stream: stream.key.integration, model: stream.key.model, why: answer.doubt })
    )
    return false
  }
  const { balance } = yield* commitPage(
    stream,
    answer.rows,
    { id: state?.reading ?? 0, kind: "refresh", backfill: false },
    {
      decisive: true,
      conclude: (tx, state) => Effect.as(tx.settleOwed(ids), { state, events: [], holds: [] })
    }
  )
  const changed = balance.changed + balance.pending
  yield* Gauges.refreshed(stream.key, "changed", changed)
  yield* Gauges.refreshed(stream.key, "unchanged", ids.length - changed)
  return true
})
