/**
 * Waiting for processes that are killed, frozen and broken: every wait has an end, and says what it waited for.
 *
 * Gotchas
 * - What runs while a scope closes cannot be interrupted: there only a promise with an end of its own ends.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"

/** Longer than anything takes on a machine that is busy with other work, shorter than a test may take. */
export const patience = Duration.seconds(60)

const outOf = (what: string, detail: string): Error =>
  new Error(`waited ${Duration.format(patience)} for ${what}${detail === "" ? "" : `\n${detail}`}`)

const nothing = () => ""

/** `detail`: how things stand when it did not come. */
export const timely = async <A>(promise: Promise<A>, what: string, detail = nothing): Promise<A> => {
  const over = Promise.withResolvers<never>()
  const timer = setTimeout(() => over.reject(outOf(what, detail())), Duration.toMillis(patience))
  try {
    return await Promise.race([promise, over.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Looks again and again until it is so; dies with what was seen last if it never is. */
export const until = <A, E, R>(
  what: string,
  look: Effect.Effect<A, E, R>,
  isSo: (seen: A) => boolean
): Effect.Effect<A, E, R> => {
  let last: A | null = null
  return look.pipe(
    Effect.tap((seen) => Effect.sync(() => last = seen)),
    Effect.repeat({ until: isSo, schedule: Schedule.spaced("50 millis") }),
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () => Effect.die(outOf(what, `seen last: ${typeof last === "string" ? last : JSON.stringify(last)}`))
    })
  )
}
