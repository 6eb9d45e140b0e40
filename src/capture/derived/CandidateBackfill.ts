/**
 * Derives `ats.candidate` once from all stored applications. This is needed after an upgrade, and when the model is added to
 * the configuration.
 *
 * Invariants
 * 1. The work is split into small transactions, and continues where it stopped after a crash   (I9, X1)
 *
 * Gotchas
 * - It runs before more applications are read, while the stored applications equal the published ones.
 * - If `ats.candidate` is removed from the configuration and added again, candidates that were erased in between are not deleted.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Processing } from "../../domain/Processing.ts"
import type { LiveRecord } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { pageContext } from "../record/PageContext.ts"
import { currentContent, withProcessing } from "../record/StoredContent.ts"
import { type Stream, transact } from "../Stream.ts"
import { newRun } from "../StreamLifecycle.ts"
import { candidateModel, toApplicationChange } from "./ApplicationChanges.ts"
import { deriveCandidates } from "./Candidates.ts"

const chunk = 250

/**
 * State of a candidate stream before the candidates are derived from the stored applications, so that the stream is not reported as
 * complete.
 */
export const notBackfilled: Pick<StreamState, "phase" | "backfilledAt" | "sweep"> = {
  phase: "starting",
  backfilledAt: null,
  sweep: null
}

const backfillChunk = Effect.fnUntraced(function*(
  tx: StreamTx,
  stream: Stream,
  applications: ReadonlyArray<LiveRecord>,
  processing: Processing
) {
  const now = yield* Clock.currentTimeMillis
  const changes = applications.map((application) =>
    toApplicationChange(processing, currentContent(stream.processing, tx.state, application), {
      parent: application.id,
      erased: false,
      flagged: false,
      old: true,
      origin: "backfill",
      detectedAt: now
    })
  )
  // a candidate that was deleted before was never published, so no delete is published either
  const notDone = { ...tx.state, backfilledAt: null }
  const context = pageContext(stream, notDone, { id: notDone.lastRunId, kind: "backfill", backfill: false }, now)
  const { derived, writes } = yield* deriveCandidates(tx, changes, processing, context)
  const state = withProcessing(derived.state, processing)
  const done = applications.length < chunk
  const run = state.sweep ?? newRun(state, "sweep", { updatedAfter: null, startedAt: now, backfill: true })
  yield* derived.saveState(
    done
      ? { ...state, phase: "live", backfilledAt: now, sweep: null }
      : { ...state, phase: "backfilling", sweep: { ...run, cursor: applications.at(-1)!.id } }
  )
  yield* derived.write(writes)
})

/** Does nothing if the stream's candidates are already derived. */
export const backfillCandidates = Effect.fn("CandidateBackfill.run")(function*(
  stream: Stream
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  const { derivedProcessing, key } = stream
  if (derivedProcessing === null) return
  for (;;) {
    const state = yield* store.stream({ integration: key.integration, model: candidateModel })
    if (state === null || state.backfilledAt !== null) return
    const { records } = yield* store.records(key, state.sweep?.cursor ?? null, chunk)
    yield* transact(stream, (tx) => backfillChunk(tx, stream, records, derivedProcessing))
  }
})
