/**
 * Releases the holds that an operator approved, in chunks, each in its own transaction.
 *
 * Invariants
 * 1. Each row of an approved hold is published exactly once, even if the release is interrupted: the row leaves the hold in the
 *    transaction that publishes it   (D6, X7)
 *
 * Gotchas
 * - The approval itself is stored, so the process that owns the stream finds it there, also after a restart.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Guard from "../../domain/Guard.ts"
import type { Hold, StreamState } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { appendEvents } from "../derived/Candidates.ts"
import * as Metrics from "../Metrics.ts"
import type { Stream } from "../read/Pages.ts"
import { withProcessing } from "../schedule/StreamLifecycle.ts"
import { applyMasks, maskingHolds, pendingStatusFor } from "./FieldMask.ts"
import { loadStagedChanges, published, releaseAsObserved } from "./StagedChanges.ts"

const chunk = 250

/** Releases one chunk in one transaction; null = the stream has no approved hold left to release. */
const releaseChunk = Effect.fnUntraced(function*(tx: StreamTx, stream: Stream) {
  const holds = yield* tx.holds
  const hold = holds.find(({ state }) => state === "approving")
  if (hold === undefined) return null
  const now = yield* Clock.currentTimeMillis
  const context = { stream: { ...tx.state, model: stream.key.model }, processing: stream.processing }
  const rows = yield* tx.pendingOfHold(hold.id, null, chunk)
  const staged = yield* loadStagedChanges(tx, rows, stream)
  const others = maskingHolds(holds)
  // Paths that another scope hold masks stay pending in that hold.
  const releases = staged.map((one) => {
    const { content, hold: mask } = one.kind === "update" && one.published !== null
      ? applyMasks(one.published, one.observed, others)
      : { content: one.observed, hold: null }
    return { mask, row: one.row, write: published(one, context, hold.release ?? releaseAsObserved, content) }
  })
  const writes = releases.flatMap(({ mask, write }) => mask === null || write.events.length > 0 ? [write] : [])
  const done = rows.length < chunk
  const after: Hold = {
    ...hold,
    released: hold.released + rows.length,
    ...(done ? { state: "approved" as const } : {})
  }
  const before = withProcessing(tx.state, stream.processing)
  const state: StreamState = done && hold.kind !== "scope"
    ? { ...before, guardHistory: Guard.forgetWave(before.guardHistory ?? [], hold.kind) }
    : before
  yield* tx.dropPending(rows.map((row) => row.id))
  yield* tx.putPending(
    releases.flatMap(({ mask, row }) =>
      mask === null ? [] : [{ ...row, status: pendingStatusFor(mask), hold: mask.id }]
    )
  )
  yield* tx.saveHold({ ...after, decidedAt: done ? now : hold.decidedAt })
  yield* tx.saveState(state)
  const events = yield* appendEvents(tx, writes, {
    ...context,
    derivedProcessing: stream.derivedProcessing,
    runId: state.lastRunId,
    origin: "sweep",
    backfill: false,
    now
  })
  return { hold: after, events }
})

/** Releases every approved hold of the stream, a chunk in each transaction. */
export const releaseApprovedHolds = Effect.fn("ApprovedHolds.release")(function*(
  stream: Stream
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  for (;;) {
    const part = yield* store.transact(stream.owner, stream.key, (tx) => releaseChunk(tx, stream))
    if (part === null) return
    yield* Metrics.eventsDetected(stream.key, part.events)
    if (part.hold.state !== "approved") continue
    yield* Effect.logInfo("hold released").pipe(Effect.annotateLogs({
      integration: stream.key.integration,
      model: stream.key.model,
      hold: part.hold.id,
      rows: part.hold.released,
      ...part.hold.release
    }))
  }
})
