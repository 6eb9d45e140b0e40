/**
 * One incremental reading of a stream: everything that changed since the watermark before last.
 *
 * Invariants
 * 1. The watermark moves only in the transaction of the last page, only forward, only by the server's clock   (I6)
 * 2. Every change lies inside two complete polls: a record skipped by a drifting page is found by the next   (P1, W6)
 *
 * Gotchas
 * - `Date` of the *first* answer counts: what changes while the poll pages belongs to the next one (W1).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { readClock } from "../domain/Watermark.ts"
import type { Page, Source } from "../source/Source.ts"
import { type Reading, Store } from "../store/Store.ts"
import * as Gauges from "./Gauges.ts"
import {
  addBalance,
  commitPage,
  concludeWith,
  isBalanced,
  newReading,
  ReadingAborted,
  type ReadingError,
  readPages,
  type Stream
} from "./Pages.ts"
import { settleDisputes } from "./PointRead.ts"
import { release } from "./Release.ts"
import { healthy } from "./StreamState.ts"

const restarts = 2

export const poll = Effect.fn("Poll.run")(function*(
  stream: Stream
): Effect.fn.Return<void, ReadingError, Store | Source> {
  for (let attempt = 0;; attempt++) {
    const ended = yield* attemptPoll(stream).pipe(
      // P5: a cursor that expired is refused; the reading starts anew from where it began.
      Effect.catchIf(
        (error) => error._tag === "SourceError" && error.reason._tag === "Rejected" && attempt < restarts,
        () => Effect.succeed(null)
      )
    )
    if (ended !== null) return yield* settleDisputes(stream, ended.id)
  }
})

const attemptPoll = Effect.fnUntraced(function*(stream: Stream) {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  if (state === null || state.previous === null) {
    return yield* new ReadingAborted({ message: "the stream has no watermark yet; its backfill comes first" })
  }
  const start = newReading(state, "poll", {
    from: state.previous - Math.max(state.margin, Duration.toMillis(stream.overlapMin)),
    startedAt: yield* Clock.currentTimeMillis,
    backfill: false
  })
  let offsets = state.offsets
  const commit = Effect.fnUntraced(function*(reading: Reading, page: Page) {
    let complete = reading.complete
    if (complete === null) {
      const clock = readClock(state.offsets, page)
      complete = clock.complete
      offsets = clock.offsets
      if (clock.outOfLine) yield* Gauges.clockOutOfLine(stream.key)
    }
    const watermark = complete
    const read: Reading = { ...reading, complete }
    const endedAt = yield* Clock.currentTimeMillis
    const committed = yield* commitPage(stream, page.results, read, {
      decisive: false,
      conclude: page.next !== null ?
        concludeWith((state) => state) :
        (tx, state, occasion, balance) =>
          release(tx, {
            ...healthy(state),
            offsets,
            previous: state.watermark,
            watermark: Math.max(state.watermark ?? watermark, watermark),
            lastPoll: { ...read, balance: addBalance(read.balance, balance), endedAt }
          }, occasion)
    })
    return { committed, reading: { ...read, balance: addBalance(read.balance, committed.balance) } }
  })
  const { reading } = yield* readPages(stream, start, {
    priority: "poll",
    commit,
    yieldTurn: Effect.succeed(false)
  })
  yield* Gauges.readingEnded(stream.key, "poll", "complete")
  if (!isBalanced(reading.balance)) yield* Gauges.readingUnbalanced(stream.key)
  yield* Effect.logDebug("poll complete").pipe(
    Effect.annotateLogs({ stream: stream.key.integration, model: stream.key.model, ...reading.balance })
  )
  return reading
})
