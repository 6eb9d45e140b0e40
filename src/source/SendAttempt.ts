/**
 * One try of a write between its hooks: hides when it is too late to send, and of what it is certain that nothing was done.
 *
 * Invariants
 * 1. After `before` allowed a try, it is answered, or its outcome is unknown, or `onNoEffect` has run
 * 2. Nothing leaves later than `maxSendDelay` after `before` began: a process that was frozen in between does not send what
 *    another process may have taken over meanwhile   (X16)
 *
 * Gotchas
 * - Time that a suspended machine slept through shows on the wall clock only, a wall clock that was set back on the
 *   monotonic one only: whichever shows more counts   (W4).
 * - What remains: the way from here to the network, for a new connection its set-up. A process that is frozen there sends
 *   when it wakes. The intent is committed by then, so whoever took over does not repeat the write blindly.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { hasNoEffect } from "./Failures.ts"
import { type SendHooks, SourceError, Transient } from "./Source.ts"

/** Longer than a transaction takes whose conflicts are tried again, much shorter than the API may take to show a write. */
export const maxSendDelay = Duration.seconds(10)

/** A hook failed. */
export class HookFailed<E> extends Data.TaggedError("HookFailed")<{ readonly by: E }> {}

const tooLate = new SourceError({
  reason: new Transient({
    code: null,
    message: `not sent: more than ${Duration.format(maxSendDelay)} passed since it was allowed`,
    notSent: true
  })
})

/** Milliseconds since it was made. */
const elapsed = Effect.gen(function*() {
  const [steady, wall] = [yield* Clock.monotonicTimeNanos, yield* Clock.currentTimeMillis]
  return Effect.gen(function*() {
    const passed = Number((yield* Clock.monotonicTimeNanos) - steady) / 1e6
    return Math.max(passed, (yield* Clock.currentTimeMillis) - wall)
  })
})

/**
 * Sends once. `send` runs what it is given right before the request leaves. `ready`: fails if something came in between while
 * `before` ran.
 */
export type SendAttempt<E> = <A>(
  send: (leave: Effect.Effect<void, SourceError>) => Effect.Effect<A, SourceError>,
  ready?: Effect.Effect<void, SourceError>
) => Effect.Effect<A, SourceError | E>

/** For what changes nothing. */
export const withoutHooks: SendAttempt<never> = (send, ready = Effect.void) => Effect.andThen(ready, send(Effect.void))

export const withHooks = <E>(hooks: SendHooks<E>): SendAttempt<HookFailed<E>> => (send, ready = Effect.void) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const gap = yield* elapsed
      const withheld = (by: E) => new HookFailed({ by })
      const allowed = yield* Effect.exit(restore(Effect.mapError(hooks.before, withheld)))
      // interrupted, it may have been committed all the same
      if (Exit.isFailure(allowed) && Cause.hasInterrupts(allowed.cause)) yield* Effect.ignore(hooks.onNoEffect)
      yield* allowed
      let left = false
      const leave = Effect.gen(function*() {
        if ((yield* gap) > Duration.toMillis(maxSendDelay)) return yield* tooLate
        left = true
      })
      const exit = yield* Effect.exit(restore(Effect.andThen(ready, send(leave))))
      const failed = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : Option.none()
      if (Exit.isFailure(exit) && (!left || (Option.isSome(failed) && hasNoEffect(failed.value)))) {
        yield* Effect.mapError(hooks.onNoEffect, withheld)
      }
      return yield* exit
    })
  )
