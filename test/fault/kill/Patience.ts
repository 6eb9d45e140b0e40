/**
 * Waits for processes that are killed, frozen or broken: every wait has a limit, and its error names the awaited event.
 *
 * Gotchas
 * - An effect in a closing scope cannot be interrupted: only a promise with its own limit ends there.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { inspect } from "node:util"

/** Longer than any step takes on a busy machine, shorter than the limit of a test. */
export const patience = Duration.minutes(2)

const timeoutError = (what: string, detail: string, limit = patience): Error =>
  new Error(`waited ${Duration.format(limit)} for ${what}${detail === "" ? "" : `\n${detail}`}`)

const nothing = () => ""

/** `detail`: the state to report when the promise does not settle in time. */
export const timely = async <A>(promise: Promise<A>, what: string, detail = nothing): Promise<A> => {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(timeoutError(what, detail())), Duration.toMillis(patience))
  try {
    return await Promise.race([promise, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** The interval at which to look, and the time limit. */
export interface Waiting {
  readonly limit: Duration.Duration
  readonly every: Duration.Duration
}

const usual: Waiting = { limit: patience, every: Duration.millis(50) }

/** Repeats `look` until the condition holds; dies with the last value if it never does. */
export const until = <A, E, R>(
  what: string,
  look: Effect.Effect<A, E, R>,
  holds: (seen: A) => boolean,
  { every, limit }: Waiting = usual
): Effect.Effect<A, E, R> => {
  let last: A | null = null
  return look.pipe(
    Effect.tap((seen) => Effect.sync(() => last = seen)),
    Effect.repeat({ until: holds, schedule: Schedule.spaced(every) }),
    Effect.timeoutOrElse({
      duration: limit,
      orElse: () => {
        const value = typeof last === "string" ? last : inspect(last, { depth: 6, maxArrayLength: 1_000 })
        return Effect.die(timeoutError(what, `last value: ${value.slice(0, 20_000)}`, limit))
      }
    })
  )
}
