/**
 * Fills `ats.candidate` once from all stored applications, where it was not derived so far: after an upgrade, or once it is
 * asked for.
 *
 * Invariants
 * 1. In small transactions; one that was killed goes on where it stood   (I9, X1)
 *
 * Gotchas
 * - It is done before its applications are read on: what is stored is then what is published.
 * - Where candidates come, go and come again in the configuration, those that were erased in between stay.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Processing } from "../../domain/Processing.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { parseContent } from "../commit/RecordWrite.ts"
import { newRun, type Stream } from "../read/Pages.ts"
import { candidateModel, deriveCandidates, toApplicationChange } from "./Candidates.ts"

const chunk = 250

/** Of one that is to be filled from the stored applications: nothing is said of its completeness until then. */
export const notBackfilled: Pick<StreamState, "phase" | "backfilledAt" | "sweep"> = {
  phase: "starting",
  backfilledAt: null,
  sweep: null
}

const backfillChunk = Effect.fnUntraced(function*(
  tx: StreamTx,
  applications: ReadonlyArray<{ readonly id: string; readonly content: string }>,
  processing: Processing
) {
  const now = yield* Clock.currentTimeMillis
  const showings = applications.map(({ content, id }) =>
    toApplicationChange(processing, parseContent(content), {
      parent: id,
      erased: false,
      flagged: false,
      old: true,
      origin: "backfill",
      detectedAt: now
    })
  )
  const { derived, writes } = yield* deriveCandidates(tx, showings, processing, {
    // who was deleted meanwhile was never told of, and is not now
    stream: { ...tx.state, backfilledAt: null },
    derivedProcessing: processing,
    runId: tx.state.lastRunId,
    origin: "backfill",
    backfill: false,
    now
  })
  const { state } = derived
  const done = applications.length < chunk
  const fill = state.sweep ?? newRun(state, "sweep", { updatedAfter: null, startedAt: now, backfill: true })
  yield* derived.saveState(
    done
      ? { ...state, phase: "live", backfilledAt: now, sweep: null }
      : { ...state, phase: "backfilling", sweep: { ...fill, cursor: applications.at(-1)!.id } }
  )
  yield* derived.write(writes)
})

/** Does nothing where it is done. */
export const backfillCandidates = Effect.fn("CandidateBackfill.run")(function*(
  { derivedProcessing, key, owner }: Stream
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  if (derivedProcessing === null) return
  for (;;) {
    const state = yield* store.stream({ integration: key.integration, model: candidateModel })
    if (state === null || state.backfilledAt !== null) return
    const { records } = yield* store.records(key, state.sweep?.cursor ?? null, chunk)
    yield* store.transact(owner, key, (tx) => backfillChunk(tx, records, derivedProcessing))
  }
})
