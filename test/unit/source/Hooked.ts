/** A write of a fake API between the hooks of its caller, as `Source.write` promises. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { SendHooks, WriteError } from "../../../src/source/Source.ts"

/** Of every failure but `OutcomeUnknown` it is certain that nothing was done. */
export const hooked = <A, E>(
  hooks: SendHooks<E>,
  write: Effect.Effect<A, WriteError>
): Effect.Effect<A, WriteError | E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      yield* hooks.before
      const exit = yield* Effect.exit(restore(write))
      const error = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : Option.none()
      if (Option.isSome(error) && error.value.reason._tag !== "OutcomeUnknown") yield* hooks.onNoEffect
      return yield* exit
    })
  )
