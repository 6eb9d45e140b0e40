/**
 * Waits until work of the running process is done, and shows how far it is.
 *
 * Gotchas
 * - The wait reads the state once a second, so it survives a restart of the process.
 */
import * as Flag from "effect/cli/Flag"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { parseShortDuration } from "../../config/ConfigValue.ts"
import { switchFlag } from "../terminal/Flags.ts"
import { CommandError, refuse } from "../terminal/Process.ts"
import { formatSeconds } from "../terminal/Tables.ts"
import { ApiClientError } from "./ApiClient.ts"

/** The flags of a command that can wait. */
export const waitFlags = {
  wait: switchFlag("wait", "Wait until it is done, and show the progress; the exit code is 1 if it cannot be done"),
  timeout: Flag.String("timeout").pipe(
    Flag.filterMap(parseShortDuration, (text) => `"${text}" is not a duration; write 20s or "20 minutes"`),
    Flag.withDescription(
      'With --wait: end after this duration, such as "20 minutes", with exit code 1; it includes the request'
    ),
    Flag.withMetavar("duration"),
    Flag.optional
  )
}

export interface WaitInput {
  readonly wait: boolean
  readonly timeout: Option.Option<Duration.Duration>
}

/** Fails if `--timeout` is given without `--wait`. */
export const checkWaitFlags = ({ timeout, wait }: WaitInput) =>
  Option.isSome(timeout) && !wait
    ? refuse("--timeout has no effect without --wait", "Add --wait.")
    : Effect.void

/** `--timeout`, and how much time is left once the request is answered. */
export interface TimeLimit {
  readonly whole: Duration.Duration
  readonly left: Duration.Duration
}

interface WaitOptions<V, E> {
  /** Reads the current state. */
  readonly read: Effect.Effect<V, E>
  /** Shows the progress; an empty text removes it. */
  readonly show: (text: string) => Effect.Effect<void>
  readonly limit: Option.Option<TimeLimit>
}

/** Work of the running process for which a command can wait. `V`: the state that shows how far it is. */
export interface Work<V> {
  /** The work in a message, such as `the poll of greenhouse:acme/ats.tag`. */
  readonly subject: string
  /** What to do after the timeout. */
  readonly hint: string
  /** null: it is done. A text: how far it is. Fails if it cannot be done. */
  readonly judge: (view: V) => Effect.Effect<string | null, CommandError>
}

const interval = "1 second"
/** How long reads may fail because the process is restarted. A read of a process that is suspended takes half of it. */
const patience = Duration.toNanosUnsafe("1 minute")
const passing: ReadonlySet<ApiClientError["reason"]> = new Set(["unreachable", "unresponsive", "interrupted"])

/** Returns the state in which the work is done. */
export const waitFor = <V, E extends Error>(
  { hint, judge, subject }: Work<V>,
  { limit, read, show }: WaitOptions<V, E>
): Effect.Effect<V, E | CommandError> => {
  /** When the first of the reads began that have failed in a row; null if the last one succeeded. Monotonic clock. */
  let failingSince: bigint | null = null
  const once = Effect.gen(function*() {
    failingSince ??= yield* Clock.monotonicTimeNanos
    const view = yield* Effect.result(read)
    if (Result.isSuccess(view)) {
      failingSince = null
      return Option.some(view.success)
    }
    const error = view.failure
    const isPassing = error instanceof ApiClientError && (passing.has(error.reason) || error.status === 503)
    if (!isPassing || (yield* Clock.monotonicTimeNanos) - failingSince >= patience) return yield* Effect.fail(error)
    yield* show(`${error.message}; still trying`)
    return Option.none<V>()
  })
  const loop: Effect.Effect<V, E | CommandError> = Effect.gen(function*() {
    for (;;) {
      const view = yield* once
      if (Option.isSome(view)) {
        const progress = yield* judge(view.value)
        if (progress === null) return view.value
        yield* show(progress)
      }
      yield* Effect.sleep(interval)
    }
  })
  const limited = Option.match(limit, {
    onNone: () => loop,
    onSome: ({ left, whole }) =>
      Effect.timeoutOrElse(loop, {
        duration: left,
        orElse: () => refuse(`${subject} was not done within ${Duration.format(whole)}`, hint)
      })
  })
  return Effect.ensuring(limited, show(""))
}

/**
 * Sends the request that starts the work, and then waits; `--timeout` limits both together. `wait` gets the answer and the time that is left.
 * `hint`: what to do if the request is not answered in time, because it may then have been carried out.
 */
export const startAndWait = <A, E, R, B, E2, R2>(
  { hint, timeout }: { readonly hint: string; readonly timeout: Option.Option<Duration.Duration> },
  start: Effect.Effect<A, E, R>,
  wait: (answer: A, limit: Option.Option<TimeLimit>) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E | E2 | CommandError, R | R2> =>
  Option.match(timeout, {
    onNone: () => Effect.flatMap(start, (answer) => wait(answer, Option.none())),
    onSome: (whole) =>
      Effect.timed(start).pipe(
        Effect.timeoutOrElse({
          duration: whole,
          orElse: () => refuse(`the process did not answer within ${Duration.format(whole)}`, hint)
        }),
        Effect.flatMap(([taken, answer]) => wait(answer, Option.some({ whole, left: Duration.subtract(whole, taken) })))
      )
  })

/** Shows how long a request of unknown length has taken, once it takes more than two seconds. `expected`: how long it may take, seconds. */
export const withElapsed = <A, E, R>(
  work: Effect.Effect<A, E, R>,
  show: (text: string) => Effect.Effect<void>,
  expected: number | null = null
): Effect.Effect<A, E, R> => {
  let seconds = 0
  const tick = Effect.suspend(() => {
    seconds += 1
    if (seconds <= 2) return Effect.void
    const left = expected === null || expected <= seconds ? "" : `, about ${formatSeconds(expected - seconds)} left`
    return show(`working for ${formatSeconds(seconds)}${left}`)
  })
  return Effect.ensuring(
    Effect.raceFirst(work, Effect.forever(Effect.andThen(Effect.sleep(interval), tick))),
    show("")
  )
}
