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
import { streamName } from "../../domain/Model.ts"
import { estimateWatermark, updateReportedTo } from "../../domain/Watermark.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { isSweepOnly, newRun, type Stream } from "../read/Pages.ts"
import { resetPasses } from "../read/SweepPasses.ts"

export const streamCommands = ["pause", "resume", "poll", "sweep", "backfill"] as const
export type StreamCommand =
  | { readonly kind: (typeof streamCommands)[number] }
  /** `to`: server time, ms. */
  | { readonly kind: "rewind"; readonly to: number }

/** The stream is in no condition for this; nothing was done. */
export class CommandRefused extends Schema.TaggedError<CommandRefused>()("CommandRefused", {
  message: Schema.String,
  hint: Schema.String
}) {}

const refuse = (message: string, hint: string) => new CommandRefused({ message, hint })

/**
 * A sweep that begins with its first page, in place of one that is open. A reading under way may have the next number and
 * have committed nothing yet: it is neither this one nor met by it.
 */
const openSweep = (state: StreamState, now: number, backfill: boolean): StreamState => {
  const withRunInProgress = { ...state, lastRunId: state.lastRunId + 1 }
  const sweep = newRun(withRunInProgress, "sweep", { updatedAfter: null, startedAt: now, backfill })
  return { ...state, ...resetPasses(state), lastRunId: sweep.id, sweep }
}

const applyCommand = (
  stream: Stream,
  state: StreamState,
  command: StreamCommand,
  now: number
): StreamState | CommandRefused => {
  if (command.kind === "pause") return { ...state, paused: true }
  if (command.kind === "resume") return { ...state, paused: false }
  if (state.paused) return refuse("the stream is paused", "resume it first")
  if (command.kind === "poll") return state
  if (command.kind === "sweep") return openSweep(state, now, state.backfilledAt === null)
  if (state.watermark === null) return refuse("the stream was never read", "its first backfill begins by itself")
  if (command.kind !== "rewind") {
    const { watermark } = estimateWatermark(state.clockOffsets, { serverTime: null, requestedAt: now, duration: 0 })
    return openSweep({ ...state, phase: "backfilling", backfilledAt: null, backfillStartedAt: watermark }, now, true)
  }
  if (isSweepOnly(stream)) return refuse("its list only ever comes whole", "every reading of it is complete already")
  if (command.to < 0) return refuse("that lies before 1970", "begin a sweep: it reads everything")
  if (command.to > state.watermark) {
    return refuse("that lies after its watermark", `choose a time before ${new Date(state.watermark).toISOString()}`)
  }
  return {
    ...state,
    watermark: command.to,
    previousWatermark: Math.min(command.to, state.previousWatermark ?? command.to)
  }
}

/** Does `act` to the stream and returns its new state. */
export const executeCommand = Effect.fn("StreamCommands.execute")(function*(
  stream: Stream,
  command: StreamCommand
): Effect.fn.Return<StreamState, CommandRefused | StoreError, Store> {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const detail = command.kind === "rewind" ? `to ${new Date(command.to).toISOString()}` : ""
  const after = yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*(tx) {
      const after = applyCommand(stream, updateReportedTo(tx.state), command, now)
      if (after instanceof CommandRefused) return yield* after
      yield* tx.saveState(after)
      yield* tx.audit({ at: now, command: `streams.${command.kind}`, target: streamName(stream.key), detail })
      return after
    })
  )
  yield* Effect.logInfo("operator acted").pipe(Effect.annotateLogs({
    command: command.kind,
    integration: stream.key.integration,
    model: stream.key.model,
    ...(detail === "" ? {} : { detail })
  }))
  return after
})
