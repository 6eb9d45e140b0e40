/**
 * Waits until the running process has carried out a command of a stream.
 *
 * Invariants
 * 1. A run that had started before the command does not end the wait: it may have passed the changes that the operator expects
 *
 * Gotchas
 * - The wait reads the stream's state once a second, so it survives a restart of the process, as the command does.
 * - A stream that is blocked or paused ends the wait. A failing stream does not, because Rollcall tries it again.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { isStreamModel, registry } from "../domain/Model.ts"
import type { CommandView, StreamView } from "../http/streams/StreamApi.ts"
import { oneLine } from "../telemetry/TerminalText.ts"
import { ApiClientError } from "./ApiClient.ts"
import { CommandError } from "./Process.ts"
import { progressText } from "./terminal/Terminal.ts"

export const waitedCommands = ["poll", "sweep", "backfill"] as const
export type WaitedCommand = (typeof waitedCommands)[number]

/** The properties of a stream that show how far a command is. */
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

export interface WaitOptions<V, E> {
  /** Reads the current state of the stream. */
  readonly read: Effect.Effect<V, E>
  /** Shows the progress. */
  readonly show: (text: string) => Effect.Effect<void>
  readonly timeout: Option.Option<Duration.Duration>
}

const interval = "1 second"
/** How many reads may fail in a row because the process is restarted. */
const patience = 60

/** Whether the process has carried out a command that it accepted at `at`; times of one clock, RFC 3339. */
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
  { read, show, timeout }: WaitOptions<V, E>
): Effect.Effect<V, E | CommandError> => {
  const name = oneLine(stream)
  const subject = `the ${command} of ${name}`
  const hint = `It continues in the running process: \`rollcall streams show ${name}\` shows how far it is.`
  let unanswered = 0
  const mayReturn = (error: E): boolean =>
    error instanceof ApiClientError && (error.reason === "unreachable" || error.reason === "unresponsive") &&
    ++unanswered < patience
  const once = read.pipe(
    Effect.tap(() => Effect.sync(() => unanswered = 0)),
    Effect.asSome,
    Effect.catchIf(mayReturn, (error) => Effect.as(show(`${error.message}; still trying`), Option.none<V>()))
  )
  const loop: Effect.Effect<V, E | CommandError> = Effect.gen(function*() {
    for (;;) {
      const view = yield* once
      if (Option.isSome(view)) {
        if (isDone(command, accepted_at, view.value)) return view.value
        const obstacle = obstacleOf(view.value)
        if (obstacle !== null) {
          return yield* new CommandError({
            message: `${subject} has not ended: ${oneLine(obstacle)}`,
            hint: `\`rollcall streams resume ${name}\` continues`
          })
        }
        yield* show(describe(view.value))
      }
      yield* Effect.sleep(interval)
    }
  })
  return Option.match(timeout, {
    onNone: () => loop,
    onSome: (duration) =>
      Effect.timeoutOrElse(loop, {
        duration,
        orElse: () =>
          Effect.fail(
            new CommandError({ message: `${subject} has not ended within ${Duration.format(duration)}`, hint })
          )
      })
  })
}
