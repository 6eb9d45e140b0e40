/**
 * Sends one attempt of a write and calls its hooks.
 *
 * Invariants
 * 1. If `before` succeeded and the attempt then certainly had no effect, `onNoEffect` runs before the attempt ends
 * 2. No request is sent later than `maxSendDelay` after `before` started. The process may have been frozen in between, and another process
 *    may have taken the write over   (X16)
 *
 * Gotchas
 * - The monotonic clock does not count time while the machine is suspended, and the wall clock may be set back. The
 *   elapsed time is therefore the larger of the two   (W4).
 * - `network/OutgoingHttp` repeats the checks when the connection is open. A process that is frozen between that check and the network still sends
 *   when it resumes. By then the intent is committed, so the process that took over does not blindly repeat the write.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { hasNoEffect, notSent } from "./Failures.ts"
import { stopwatch } from "./MonotonicClock.ts"
import { type SendHooks, type SourceError, Transient } from "./Source.ts"

/** Longer than a transaction with retried conflicts takes; much shorter than the API may take to show a write. */
export const maxSendDelay = Duration.seconds(10)

/** A hook of the caller failed with the error `by`. */
export class HookFailed<E> extends Data.TaggedError("HookFailed")<{ readonly by: E }> {}

const tooLate = notSent(
  Transient,
  `not sent: more than ${Duration.format(maxSendDelay)} passed since the check of the write started`
)

/** Starts a stopwatch; the inner effect returns the elapsed milliseconds, by the clock that counted more. */
const startStopwatch = Effect.gen(function*() {
  const [elapsed, wall] = [yield* stopwatch, yield* Clock.currentTimeMillis]
  return Effect.zipWith(elapsed, Clock.currentTimeMillis, (passed, now) => Math.max(passed, now - wall))
})

/**
 * Sends once. `send` must run `beforeSend` immediately before it sends the request, and may run it earlier too, for example before it
 * connects. `ready` runs after the hook `before`, and fails if the request must no longer be sent.
 */
export type SendAttempt<E> = <A>(
  send: (beforeSend: Effect.Effect<void, SourceError>) => Effect.Effect<A, SourceError>,
  ready?: Effect.Effect<void, SourceError>
) => Effect.Effect<A, SourceError | E>

/** For requests that change nothing. */
export const withoutHooks: SendAttempt<never> = (send, ready = Effect.void) => Effect.andThen(ready, send(Effect.void))

export const withHooks = <E>(hooks: SendHooks<E>): SendAttempt<HookFailed<E>> => (send, ready = Effect.void) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const gap = yield* startStopwatch
      const hookFailed = (by: E) => new HookFailed({ by })
      const allowed = yield* Effect.exit(restore(Effect.mapError(hooks.before, hookFailed)))
      // An interrupted hook may have committed its intent.
      if (Exit.isFailure(allowed) && Cause.hasInterrupts(allowed.cause)) yield* Effect.ignore(hooks.onNoEffect)
      yield* allowed
      let sent = false
      const beforeSend = Effect.gen(function*() {
        if ((yield* gap) > Duration.toMillis(maxSendDelay)) return yield* tooLate
        sent = true
      })
      const exit = yield* Effect.exit(restore(Effect.andThen(ready, send(beforeSend))))
      const failed = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : Option.none()
      if (Exit.isFailure(exit) && (!sent || (Option.isSome(failed) && hasNoEffect(failed.value)))) {
        yield* Effect.mapError(hooks.onNoEffect, hookFailed)
      }
      return yield* exit
    })
  )
