/**
 * Releases the holds that an operator approved, in chunks, each in its own transaction.
 *
 * Invariants
 * 1. Each row of an approved hold is published exactly once, even if the release is interrupted: the row leaves the hold in the
 *    transaction that publishes it   (D6, X7)
 *
 * Gotchas
 * - The approval itself is stored, so the process that owns the stream finds it even after a restart.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Guard from "../../domain/Guard.ts"
import type { Hold } from "../../store/Records.ts"
import type { Store, StoreError, StreamTx } from "../../store/Store.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import * as Metrics from "../Metrics.ts"
import { pageContext } from "../record/PageContext.ts"
import { withProcessing } from "../record/StoredContent.ts"
import { annotate, spanAttributes, type Stream, transact } from "../Stream.ts"
import { maskingHolds } from "./FieldMask.ts"
import { approvedRules, releaseRows } from "./Release.ts"
import { chunk } from "./Verdict.ts"

/** Releases one chunk in one transaction; null if the stream has no approved hold left to release. */
const releaseChunk = Effect.fnUntraced(function*(tx: StreamTx, stream: Stream) {
  const holds = yield* tx.holds
  const hold = holds.find(({ state }) => state === "approving")
  if (hold === undefined) return null
  const now = yield* Clock.currentTimeMillis
  const rows = yield* tx.pendingOfHold(hold.id, null, chunk)
  const done = rows.length < chunk
  const released = hold.released + rows.length
  const state = withProcessing(tx.state, stream.processing)
  yield* tx.saveState(
    done && hold.kind !== "scope"
      ? { ...state, guardHistory: Guard.resetWave(state.guardHistory ?? [], hold.kind) }
      : state
  )
  const { lastRunId } = tx.state
  const context = pageContext(stream, tx.state, { id: lastRunId, kind: "sweep", backfill: false }, now)
  const events = yield* Tracing.inTrace("release", spanAttributes(stream.key, { "rollcall.hold": hold.id }))(
    releaseRows(tx, rows, context, approvedRules(hold, maskingHolds(holds)))
  )
  // the events of a transaction have successive positions
  const last = events.length === 0 ? 0 : yield* tx.newestPosition
  const first = hold.published?.first ?? last - events.length + 1
  const published = events.length === 0 ? hold.published : { first, last }
  const after: Hold = { ...hold, released, published, state: done ? "approved" : hold.state }
  yield* tx.saveHold(after)
  return { hold: after, events }
})

/** Releases every approved hold of the stream, a chunk in each transaction. */
export const releaseApprovedHolds = Effect.fn("ApprovedHolds.release")(function*(
  stream: Stream
): Effect.fn.Return<void, StoreError, Store> {
  for (;;) {
    const part = yield* transact(stream, (tx) => releaseChunk(tx, stream))
    if (part === null) return
    yield* Metrics.eventsDetected(part.events)
    if (part.hold.state !== "approved") continue
    const { id, release, released } = part.hold
    yield* Effect.logInfo("hold released").pipe(annotate(stream.key, { hold: id, rows: released, ...release }))
  }
})
