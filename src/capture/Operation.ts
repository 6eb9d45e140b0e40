/**
 * What an operator may do with one stream, each act one transaction on its state: the stream's loop then does the work, so
 * that an act survives a restart and never waits for a reading under way.
 *
 * Gotchas
 * - A poll under way goes on to its end and then sets P := W as always: after a rewind that is the time rewound to, and
 *   the next poll reads from there. What was reported to be complete stays reported: it is only read again.
 * - A new backfill asks anew what is old: what turns up in it was there before, and is no new hire (B3). That holds from the
 *   moment of the act on, for a reading under way too: nothing is old that began before a time that nobody knows yet.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { streamName } from "../domain/Model.ts"
import { readClock, reported } from "../domain/Watermark.ts"
import type { StreamState } from "../store/State.ts"
import { Store, type StoreError } from "../store/Store.ts"
import { isWhole, newReading, type Stream } from "./Pages.ts"
import { afresh } from "./Seams.ts"

export const acts = ["pause", "resume", "poll", "sweep", "backfill"] as const
export type Act =
  | { readonly act: (typeof acts)[number] }
  /** `to`: server time, ms. */
  | { readonly act: "rewind"; readonly to: number }

/** The stream is in no condition for this; nothing was done. */
export class ActRefused extends Schema.TaggedError<ActRefused>()("ActRefused", {
  message: Schema.String,
  hint: Schema.String
}) {}

const refuse = (message: string, hint: string) => new ActRefused({ message, hint })

/**
 * A sweep that begins with its first page, in place of one that is open. A reading under way may have the next number and
 * have committed nothing yet: it is neither this one nor met by it.
 */
const opened = (state: StreamState, now: number, backfill: boolean): StreamState => {
  const underWay = { ...state, reading: state.reading + 1 }
  const sweep = newReading(underWay, "sweep", { from: null, startedAt: now, backfill })
  return { ...state, ...afresh(state), reading: sweep.id, sweep }
}

const done = (stream: Stream, state: StreamState, act: Act, now: number): StreamState | ActRefused => {
  if (act.act === "pause") return { ...state, paused: true }
  if (act.act === "resume") return { ...state, paused: false }
  if (state.paused) return refuse("the stream is paused", "resume it first")
  if (act.act === "poll") return state
  if (act.act === "sweep") return opened(state, now, state.backfilledAt === null)
  if (state.watermark === null) return refuse("the stream was never read", "its first backfill begins by itself")
  if (act.act !== "rewind") {
    const { complete } = readClock(state.offsets, { serverTime: null, requestedAt: now, duration: 0 })
    return opened({ ...state, phase: "backfilling", backfilledAt: null, backfillStartedAt: complete }, now, true)
  }
  if (isWhole(stream)) return refuse("its list only ever comes whole", "every reading of it is complete already")
  if (act.to < 0) return refuse("that lies before 1970", "begin a sweep: it reads everything")
  if (act.to > state.watermark) {
    return refuse("that lies after its watermark", `choose a time before ${new Date(state.watermark).toISOString()}`)
  }
  return { ...state, watermark: act.to, previous: Math.min(act.to, state.previous ?? act.to) }
}

/** Does `act` to the stream and returns its new state. */
export const operate = Effect.fn("Operation.operate")(function*(
  stream: Stream,
  act: Act
): Effect.fn.Return<StreamState, ActRefused | StoreError, Store> {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const detail = act.act === "rewind" ? `to ${new Date(act.to).toISOString()}` : ""
  const after = yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*(tx) {
      const after = done(stream, reported(tx.state), act, now)
      if (after instanceof ActRefused) return yield* after
      yield* tx.save(after)
      yield* tx.record({ at: now, act: `streams.${act.act}`, target: streamName(stream.key), detail })
      return after
    })
  )
  yield* Effect.logInfo("operator acted").pipe(Effect.annotateLogs({
    act: act.act,
    stream: stream.key.integration,
    model: stream.key.model,
    ...(detail === "" ? {} : { detail })
  }))
  return after
})
