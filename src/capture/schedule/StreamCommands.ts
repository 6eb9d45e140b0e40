/**
 * Operator commands for one stream. Each command is one transaction that changes the stream's state; the stream's loop then does
 * the work. A command therefore survives a restart and never waits for the run in progress. The exception is `poll`, which changes no
 * state and only wakes the loop: after a restart, the stream is polled when its interval is over.
 *
 * Gotchas
 * - A poll in progress runs to its end, and then copies the watermark to the previous watermark as usual. A rewind sets the watermark
 *   too, so the next poll still reads from the time of the rewind. `complete_to` does not go back, because changes before it are only
 *   read again.
 * - A new backfill resets the time that separates old records from new ones: the records that it finds existed before, and are not
 *   treated as new (B3). The time is set when the command is executed, and applies to the run in progress too.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { streamName } from "../../domain/Model.ts"
import { knownOffset, updateReportedTo } from "../../domain/Watermark.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { replaceRun } from "../commit/RunHistory.ts"
import { resetPasses } from "../read/SweepPasses.ts"
import { annotate, isSweepOnly, type Stream, transact } from "../Stream.ts"
import { newRun } from "../StreamLifecycle.ts"

export const streamCommands = ["pause", "resume", "poll", "sweep", "backfill"] as const
export type StreamCommand =
  | { readonly kind: (typeof streamCommands)[number] }
  /** `to`: server time, in ms. */
  | { readonly kind: "rewind"; readonly to: number }

/** The stream's state does not allow the command; nothing was changed. */
export class CommandRefused extends Schema.TaggedError<CommandRefused>()("CommandRefused", {
  message: Schema.String,
  hint: Schema.String
}) {}

const refuse = (message: string, hint: string) => new CommandRefused({ message, hint })

const refuseUnread = ({ paused }: StreamState) =>
  refuse(
    "the stream has not been read yet",
    paused ? "resume the stream first" : "its first backfill starts automatically"
  )

/**
 * Replaces the open sweep, if there is one, by a new sweep from the first page. A run in progress that has committed nothing yet may
 * already use the next run id, so one id is skipped.
 */
export const openSweep = (state: StreamState, now: number, backfill: boolean): StreamState => {
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
  if (state.paused) return refuse("the stream is paused", "resume the stream first")
  if (command.kind === "poll") return state
  if (command.kind === "sweep") return openSweep(state, now, state.backfilledAt === null)
  if (state.watermark === null) return refuseUnread(state)
  if (command.kind !== "rewind") {
    // a record that is created from now on may have a time without milliseconds
    const backfillStartedAt = now + (knownOffset(state.clockOffsets) ?? 0) - 1_000
    return openSweep({ ...state, phase: "backfilling", backfilledAt: null, backfillStartedAt }, now, true)
  }
  if (isSweepOnly(stream)) {
    return refuse("the stream has no polls", "every run reads the whole list; no rewind is needed")
  }
  if (command.to < 0) return refuse("the time is before 1970", "start a sweep to read the whole list")
  if (command.to > state.watermark) {
    return refuse("the time is after the watermark", `choose a time before ${new Date(state.watermark).toISOString()}`)
  }
  return {
    ...state,
    watermark: command.to,
    previousWatermark: Math.min(command.to, state.previousWatermark ?? command.to)
  }
}

/** Fails if nothing was read that an audit could compare. */
export const requireRead = Effect.fnUntraced(function*(
  { key }: Stream
): Effect.fn.Return<void, CommandRefused | StoreError, Store> {
  const state = yield* (yield* Store).stream(key)
  if (state?.watermark === null) return yield* refuseUnread(state)
})

/** Applies the command to the stream and returns its new state. */
export const executeCommand = Effect.fn("StreamCommands.execute")(function*(
  stream: Stream,
  command: StreamCommand
): Effect.fn.Return<StreamState, CommandRefused | StoreError, Store> {
  const now = yield* Clock.currentTimeMillis
  const detail = command.kind === "rewind" ? `to ${new Date(command.to).toISOString()}` : ""
  const after = yield* transact(
    stream,
    Effect.fnUntraced(function*(tx) {
      const applied = applyCommand(stream, updateReportedTo(tx.state), command, now)
      if (applied instanceof CommandRefused) return yield* applied
      const after = { ...applied, commandedAt: now }
      const { sweep } = tx.state
      const isReplaced = sweep !== null && sweep.id !== after.sweep?.id
      const replaced = isReplaced ? replaceRun(after, sweep, now) : { state: after, entry: null }
      if (replaced.entry !== null) yield* tx.recordRun(replaced.entry)
      yield* tx.saveState(replaced.state)
      yield* tx.recordAction({ at: now, command: `streams.${command.kind}`, target: streamName(stream.key), detail })
      return after
    })
  )
  yield* Effect.logInfo("operator acted").pipe(
    annotate(stream.key, { command: command.kind, ...(detail === "" ? {} : { detail }) })
  )
  return after
})
