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
import type { Processing } from "../domain/Processing.ts"
import type { StreamState } from "../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../store/Store.ts"
import { derive, model, showing } from "./Candidates.ts"
import { newReading, type Stream } from "./Pages.ts"
import { parseContent } from "./Publication.ts"

const chunk = 250

/** Of one that is to be filled from the stored applications: nothing is said of its completeness until then. */
export const unfilled: Pick<StreamState, "phase" | "backfilledAt" | "sweep"> = {
  phase: "starting",
  backfilledAt: null,
  sweep: null
}

const fillSome = Effect.fnUntraced(function*(
  tx: StreamTx,
  applications: ReadonlyArray<{ readonly id: string; readonly content: string }>,
  processing: Processing
) {
  const now = yield* Clock.currentTimeMillis
  const showings = applications.map(({ content, id }) =>
    showing(processing, parseContent(content), {
      parent: id,
      erased: false,
      flagged: false,
      old: true,
      origin: "backfill",
      detectedAt: now
    })
  )
  const { derived, writes } = yield* derive(tx, showings, processing, {
    // who was deleted meanwhile was never told of, and is not now
    stream: { ...tx.state, backfilledAt: null },
    derives: processing,
    reading: tx.state.reading,
    origin: "backfill",
    backfill: false,
    now
  })
  const { state } = derived
  const done = applications.length < chunk
  const fill = state.sweep ?? newReading(state, "sweep", { from: null, startedAt: now, backfill: true })
  yield* derived.save(
    done
      ? { ...state, phase: "live", backfilledAt: now, sweep: null }
      : { ...state, phase: "backfilling", sweep: { ...fill, cursor: applications.at(-1)!.id } }
  )
  yield* derived.write(writes)
})

/** Does nothing where it is done. */
export const fill = Effect.fn("CandidateFill.fill")(function*(
  { derives, key, owner }: Stream
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  if (derives === null) return
  for (;;) {
    const state = yield* store.stream({ integration: key.integration, model })
    if (state === null || state.backfilledAt !== null) return
    const { records } = yield* store.records(key, state.sweep?.cursor ?? null, chunk)
    yield* store.transact(owner, key, (tx) => fillSome(tx, records, derives))
  }
})
