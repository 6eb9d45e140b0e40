/**
 * Waits until the running process has carried out a command of a stream.
 *
 * Invariants
 * 1. A run that started before the command does not end the wait, because it may already have passed the changes that the operator expects
 *
 * Gotchas
 * - A stream that is blocked or paused ends the wait. A failing stream does not, because Rollcall tries it again.
 */
import * as Effect from "effect/Effect"
import { isStreamModel, registry } from "../../domain/Model.ts"
import type { CommandView, StreamView } from "../../http/contract/StreamApi.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import { CommandError } from "../terminal/Process.ts"
import { progressText } from "../terminal/Tables.ts"
import { waitFor, type WaitOptions } from "./Waiting.ts"

export const waitedCommands = ["poll", "sweep", "backfill"] as const
export type WaitedCommand = (typeof waitedCommands)[number]

/** The properties of a stream that show the progress of a command. */
export type WaitedView = Pick<
  StreamView,
  | "stream"
  | "model"
  | "phase"
  | "paused"
  | "blocked"
  | "failing"
  | "progress"
  | "records_live"
  | "last_poll_started_at"
  | "last_sweep_started_at"
  | "sweep_repeats"
>

/** Whether the process has carried out a command that it accepted at `at`. All times are RFC 3339 and come from the same clock. */
const isDone = (command: WaitedCommand, at: string, view: WaitedView): boolean => {
  const isAfter = (time: string | null) => time !== null && time >= at
  const isSwept = isAfter(view.last_sweep_started_at) && !view.sweep_repeats
  if (command === "sweep") return isSwept
  if (command === "backfill") return isSwept && view.phase === "live"
  const isSweepOnly = isStreamModel(view.model) && registry[view.model].sweepOnly === true
  return isAfter(isSweepOnly ? view.last_sweep_started_at : view.last_poll_started_at)
}

const obstacleOf = ({ blocked, paused }: WaitedView): string | null =>
  paused
    ? "an operator has paused the stream"
    : blocked === null
    ? null
    : `the stream is blocked (${blocked.reason}): ${blocked.message}`

const describe = ({ failing, phase, progress }: WaitedView): string =>
  failing !== null
    ? `failed ${failing.count === 1 ? "once" : `${failing.count} times`}: ${failing.message}; trying again`
    : progress === null
    ? `waiting (${phase})`
    : progressText(progress)

/** Returns the state of the stream once the command is carried out. */
export const awaitCommand = <V extends WaitedView, E extends Error>(
  command: WaitedCommand,
  { accepted_at, stream }: Pick<CommandView, "stream" | "accepted_at">,
  options: WaitOptions<V, E>
): Effect.Effect<V, E | CommandError> => {
  const name = oneLine(stream)
  const subject = `the ${command} of ${name}`
  return waitFor({
    subject,
    hint: `It continues in the running process: \`rollcall streams show ${name}\` shows how far it is.`,
    judge: (view) => {
      if (isDone(command, accepted_at, view)) return Effect.succeed(null)
      const obstacle = obstacleOf(view)
      return obstacle === null ? Effect.succeed(describe(view)) : Effect.fail(
        new CommandError({
          message: `${subject} is not done: ${oneLine(obstacle)}`,
          hint: `\`rollcall streams resume ${name}\` continues`
        })
      )
    }
  }, options)
}
