/** Runs a write of a fake API with the caller's hooks, as `Source.write` promises. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { SendHooks, WriteError } from "../../../src/source/Source.ts"

/** Every failure except `OutcomeUnknown` proves that the write had no effect. */
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
