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
import { pageSize } from "../api/Lists.ts"
import { isObject } from "../domain/Canonical.ts"
import { parseTime, readClock } from "../domain/Watermark.ts"
import type { Page, Source } from "../source/Source.ts"
import type { Reading, StreamState } from "../store/State.ts"
import { Store } from "../store/Store.ts"
import * as Gauges from "./Gauges.ts"
import {
  commitPage,
  concludeWith,
  counted,
  isBalanced,
  newReading,
  type ReadingError,
  readPages,
  type Stream
} from "./Pages.ts"
import { settleDisputes } from "./PointRead.ts"
import { release } from "./Release.ts"
import { settled } from "./Seams.ts"
import { healthy, ReadingAborted } from "./StreamState.ts"

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
    const read: Reading = { ...reading, complete, unasked: (reading.unasked ?? 0) + unasked(reading, page) }
    const endedAt = yield* Clock.currentTimeMillis
    const committed = yield* commitPage(stream, page.results, read, {
      decisive: false,
      conclude: page.next !== null ?
        concludeWith((state) => state) :
        (tx, state, occasion, committed) => {
          const whole = counted(read, committed)
          const polled: StreamState = {
            ...answered(healthy(state), whole),
            offsets,
            previous: state.watermark,
            watermark: Math.max(state.watermark ?? watermark, watermark),
            lastPoll: { ...whole, endedAt }
          }
          return release(tx, settled(polled), occasion)
        }
    })
    return counted(read, committed)
  })
  const { reading } = yield* readPages(stream, start, {
    priority: "poll",
    commit,
    yieldTurn: Effect.succeed(false)
  })
  const after = yield* store.stream(stream.key)
  if (after?.polls !== state.polls) yield* Gauges.pollsAnswered(stream.key, after?.polls)
  yield* Gauges.readingEnded(stream.key, "poll", "complete")
  if (!isBalanced(reading.balance)) yield* Gauges.readingUnbalanced(stream.key)
  yield* Effect.logDebug("poll complete").pipe(
    Effect.annotateLogs({ stream: stream.key.integration, model: stream.key.model, ...reading.balance })
  )
  return reading
})

/** Rows that did not change since the poll's start of window: nested changes bring some, an ignored filter all. */
const unasked = ({ from }: Reading, page: Page): number =>
  page.results.filter((row) => isObject(row) && (parseTime(row["changed_at"]) ?? Infinity) < (from ?? 0)).length

/** A list of one page is not worth a difference. */
const worthwhile = pageSize.max

/** Whether the poll was answered what changed, or the whole list (W12). */
const answered = (state: StreamState, { balance: { read }, complete, unasked = 0 }: Reading): StreamState => {
  const { polls, ...rest } = state
  const isEverything = read > worthwhile && unasked > 0.9 * read && read >= 0.9 * (state.lastSweep?.balance.read ?? 0)
  const found = isEverything ? "everything" : polls === "nothing" && read === 0 ? "nothing" : undefined
  return {
    ...rest,
    ...read > 0 && complete !== null ? { heard: complete } : {},
    ...found === undefined ? {} : { polls: found }
  }
}
