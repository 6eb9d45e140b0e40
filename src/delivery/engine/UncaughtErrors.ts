/**
 * Finds the attempt to which an error belongs that no code awaited or caught: a rejected promise, an error thrown in a timer
 * or a callback, a call of `process.exit`. That attempt fails, and the process lives on. Hides how the error is traced back.
 *
 * Invariants
 * 1. An error that belongs to no attempt ends the process, as it does without plugins
 *
 * Gotchas
 * - Node gives its listeners the asynchronous context in which the promise was rejected, or the callback was made. A listener
 *   that a handler adds to an emitter of somebody else runs in the context of whoever emits: it cannot be traced back.
 * - A rejection is reported after all that is due at once: a handler that is done waits for that long.
 * - `process.abort`, a fatal signal and exhausted memory end the process all the same; see `aloneAfter`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import { AsyncLocalStorage } from "node:async_hooks"
import { asNotAwaited, isHandlerError, Uncaught } from "../../plugin/Failure.ts"

/** The attempt of which something runs. */
export interface AttemptLabel {
  readonly plugin: string
  readonly handler: string
  readonly delivery: number
}

interface WatchedAttempt extends AttemptLabel {
  /** Fails the attempt; null once it has ended. */
  fail: ((cause: Cause.Cause<unknown>) => void) | null
}

type UncaughtKind = "rejection" | "exception" | "exit"

const how: Readonly<Record<UncaughtKind, string>> = {
  rejection: "a promise was rejected that nothing awaited",
  exception: "an error was thrown in a timer or a callback",
  exit: "it called process.exit"
}

const uncaught = Metric.counter("rollcall_handler_uncaught_errors_total", {
  description: "Errors of handlers that no code awaited or caught, by kind: rejection, exception, exit; and by whether "
    + "their attempt had ended",
  incremental: true
})

const currentAttempt = new AsyncLocalStorage<WatchedAttempt>()
/** How many watch: without one nothing is reported, and nobody needs to wait for it. */
let watchers = 0

/** Returns once every rejection of before is reported. */
const awaitRejections = Effect.suspend(() =>
  watchers === 0 ? Effect.void : Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))
)

const causeOf = ({ handler, plugin }: AttemptLabel, kind: UncaughtKind, error: unknown): Cause.Cause<unknown> =>
  isHandlerError(error)
    ? Cause.fail(asNotAwaited(`what plugin ${plugin}, handler ${handler} called`, error))
    : Cause.die(new Uncaught(`plugin ${plugin}, handler ${handler}: ${how[kind]}`, { cause: error }))

/**
 * Runs the effect so that its errors are traced back to it, wherever they come up; the first of them is its failure. It is
 * interrupted once `answered` returns.
 */
export const containUncaught =
  (who: AttemptLabel, answered: Effect.Effect<void> = Effect.void) =>
  <E, R>(effect: Effect.Effect<void, E, R>): Effect.Effect<void, E, R> =>
    Effect.flatMap(Effect.context<R>(), (context) =>
      Effect.callback<void, E>((resume) => {
        let failure: Cause.Cause<unknown> | null = null
        let fiber: Fiber.Fiber<void, E> | null = null
        const run = Effect.runForkWith(context)
        const end = Effect.andThen(answered, Effect.sync(() => fiber?.interruptUnsafe()))
        const own: WatchedAttempt = {
          ...who,
          fail: (cause) => {
            if (failure !== null) return
            failure = cause
            if (fiber !== null) run(end)
          }
        }
        fiber = currentAttempt.run(own, () => run(Effect.andThen(effect, awaitRejections)))
        // it may have failed in its first step
        if (failure !== null) run(end)
        fiber.addObserver((exit) => {
          own.fail = null
          // what it failed with is one of the handler's failures, or a defect
          resume(failure === null ? exit : Exit.failCause(failure as Cause.Cause<E>))
        })
        return Fiber.interrupt(fiber)
      }))

/** What `process.exit` throws where it does not end the process. */
class ExitPrevented extends Error {}

const report = ({ delivery, handler, plugin }: AttemptLabel, kind: UncaughtKind, ended: boolean) => {
  const labels = { plugin, handler, kind, ended: String(ended) }
  return Effect.andThen(
    Metric.update(Metric.withAttributes(uncaught, labels), 1),
    ended
      ? Effect.logWarning("an attempt that had ended left something behind that failed").pipe(
        Effect.annotateLogs({ plugin, handler, delivery, why: how[kind], hint: "await every promise in the handler" })
      )
      : Effect.void
  )
}

const fatal = (kind: UncaughtKind, error: unknown) =>
  Effect.logError("the process ends: an error came up that belongs to no attempt of a plugin", Cause.die(error)).pipe(
    Effect.annotateLogs({
      why: how[kind],
      hint: "if it ends again and again, switch plugins off with `rollcall plugins off`; otherwise report it"
    })
  )

/** Watches this process for as long as the scope is open. */
export const watchUncaught: Effect.Effect<void, never, Scope.Scope> = Effect.gen(function*() {
  const run = Effect.runSyncWith(yield* Effect.context<Scope.Scope>())
  const exit = process.exit

  const handleUncaught = (kind: UncaughtKind, error: unknown): void => {
    if (error instanceof ExitPrevented) return
    const own = currentAttempt.getStore()
    if (own === undefined) {
      run(fatal(kind, error))
      exit.call(process, 1)
      return
    }
    run(report(own, kind, own.fail === null))
    own.fail?.(causeOf(own, kind, error))
  }
  const rejected = (error: unknown) => handleUncaught("rejection", error)
  const thrown = (error: unknown) => handleUncaught("exception", error)
  const refuse: typeof process.exit = (code) => {
    if (currentAttempt.getStore() === undefined) return exit.call(process, code)
    handleUncaught("exit", undefined)
    throw new ExitPrevented("process.exit does not end the process from within a handler")
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      watchers++
      process.on("unhandledRejection", rejected).on("uncaughtException", thrown)
      process.exit = refuse
    }),
    () =>
      Effect.sync(() => {
        watchers--
        process.off("unhandledRejection", rejected).off("uncaughtException", thrown)
        if (process.exit === refuse) process.exit = exit
      })
  )
})
