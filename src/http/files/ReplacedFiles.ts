/**
 * Files that may be replaced while the process runs: the certificate, and the tokens. They are read again every minute.
 *
 * Gotchas
 * - Files that belong together are replaced one after another. While they cannot be used together, the previous content stays in use, and
 *   the reason is logged once.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"

const interval = Duration.minutes(1)

/** Why the files cannot be used. */
interface Fault {
  readonly message: string
  readonly hint: string
}

export interface Replaceable<A> {
  /** The subject of the messages in the log, such as `certificate`. */
  readonly name: string
  readonly first: A
  readonly read: Effect.Effect<A, Fault>
  readonly isSame: (one: A, other: A) => boolean
  /** Uses new content. Returns the annotations of the log line about it. */
  readonly use: (content: A) => Readonly<Record<string, string>>
}

/** Uses new content within a minute. Never returns. */
export const keepCurrent = <A>({ first, isSame, name, read, use }: Replaceable<A>): Effect.Effect<never> => {
  let current = first
  let failure = ""
  const reread = Effect.matchEffect(read, {
    onFailure: ({ hint, message }) => {
      if (message === failure) return Effect.void
      failure = message
      return Effect.annotateLogs(Effect.logWarning(`${name} not replaced`), { error: message, hint })
    },
    onSuccess: (content) => {
      failure = ""
      if (isSame(content, current)) return Effect.void
      current = content
      return Effect.annotateLogs(Effect.logInfo(`${name} replaced`), use(content))
    }
  })
  return Effect.repeat(reread, Schedule.spaced(interval)).pipe(Effect.delay(interval), Effect.andThen(Effect.never))
}
