/**
 * Finds the attempt that caused an uncaught error: a rejected promise that no code awaited, an error thrown in a timer or a
 * callback, or a call of `process.exit`. That attempt fails, and the process continues.
 *
 * Invariants
 * 1. An error that cannot be traced to an attempt ends the process, as it does without plugins
 *
 * Gotchas
 * - Node calls the listeners in the asynchronous context in which the promise was rejected or the callback was created. A
 *   listener that a handler adds to a foreign emitter runs in the context of the code that emits, so its errors cannot be traced.
 * - Node reports a rejection only after all work that is ready to run. The result of a handler that has returned waits that long.
 * - `process.abort`, a fatal signal and exhausted memory still end the process; see `isolateAfterCrashes`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import { AsyncLocalStorage } from "node:async_hooks"
import { asNotAwaited, isHandlerError, Uncaught } from "../../plugin/Failure.ts"

/** Identifies an attempt in logs and metrics. */
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
  exit: "process.exit was called"
}

const uncaught = Metric.counter("rollcall_handler_uncaught_errors_total", {
  description: "Errors of handlers that no code awaited or caught, by kind (rejection, exception, exit) and by "
    + "ended: whether their attempt had ended",
  incremental: true
})

const currentAttempt = new AsyncLocalStorage<WatchedAttempt>()
/** Active calls of `watchUncaught`. Without one no rejection is reported, so no attempt has to wait for reports. */
let watchers = 0

/** Calls the function once every earlier rejection has been reported. */
const afterRejections = (then: () => void): void => {
  if (watchers === 0) then()
  else setImmediate(then)
}

const causeOf = ({ handler, plugin }: AttemptLabel, kind: UncaughtKind, error: unknown): Cause.Cause<unknown> =>
  isHandlerError(error)
    ? Cause.fail(asNotAwaited(`a call by plugin ${plugin}, handler ${handler}`, error))
    : Cause.die(new Uncaught(`plugin ${plugin}, handler ${handler}: ${how[kind]}`, { cause: error }))

export interface Ends<L> {
  /** Before an uncaught error interrupts the effect, this waits until every write that the attempt has sent has its response. */
  readonly writesDone?: Effect.Effect<void>
  /** Interrupts the effect when it fails, and is then the result. It runs only if the effect does not end at once. */
  readonly limit?: Effect.Effect<never, L>
}

/** Runs the effect so that its uncaught errors are traced back to it. The first of them becomes its failure. */
export const containUncaught =
  <L = never>(label: AttemptLabel, { limit = Effect.never, writesDone = Effect.void }: Ends<L> = {}) =>
  <E, R>(effect: Effect.Effect<void, E, R>): Effect.Effect<void, E | L, R> =>
    Effect.flatMap(Effect.context<R>(), (context) =>
      Effect.callback<void, E | L>((resume) => {
        let failure: Cause.Cause<unknown> | null = null
        let fiber: Fiber.Fiber<void, E> | null = null
        let limiting: Fiber.Fiber<never, L> | null = null
        const run = Effect.runForkWith(context)
        const end = Effect.andThen(writesDone, Effect.sync(() => fiber?.interruptUnsafe()))
        const own: WatchedAttempt = {
          ...label,
          fail: (cause) => {
            if (failure !== null) return
            failure = cause
            if (fiber !== null) run(end)
          }
        }
        const finish = (exit: Exit.Exit<void, E>) => {
          own.fail = null
          // the cause holds a failure of the handler or of the limit, or a defect
          resume(failure === null ? exit : Exit.failCause(failure as Cause.Cause<E | L>))
        }
        const running = fiber = currentAttempt.run(own, () => run(effect))
        // the first step may have failed before `fiber` was set
        if (failure !== null) run(end)
        if (running.pollUnsafe() === undefined) {
          limiting = run(limit)
          limiting.addObserver((exit) => {
            if (running.pollUnsafe() !== undefined || Exit.isSuccess(exit)) return
            own.fail = null
            failure ??= exit.cause
            running.interruptUnsafe()
          })
        }
        running.addObserver((exit) => {
          limiting?.interruptUnsafe()
          if (Exit.isSuccess(exit)) afterRejections(() => finish(exit))
          else finish(exit)
        })
        return Fiber.interrupt(running)
      }))

/** Thrown by `process.exit` in a handler, where it does not end the process. */
class ExitPrevented extends Error {}

const report = ({ delivery, handler, plugin }: AttemptLabel, kind: UncaughtKind, ended: boolean) => {
  const labels = { plugin, handler, kind, ended: String(ended) }
  return Effect.andThen(
    Metric.update(Metric.withAttributes(uncaught, labels), 1),
    ended
      ? Effect.logWarning("uncaught error of an attempt that had already ended").pipe(
        Effect.annotateLogs({ plugin, handler, delivery, why: how[kind], hint: "await every promise in the handler" })
      )
      : Effect.void
  )
}

const fatal = (kind: UncaughtKind, error: unknown) =>
  Effect.logError("the process ends: an uncaught error could not be traced to a plugin", Cause.die(error)).pipe(
    Effect.annotateLogs({
      why: how[kind],
      hint:
        "if the process keeps ending like this, switch plugins off with `rollcall plugins off`; otherwise report a bug"
    })
  )

/** Handles the uncaught errors of this process for as long as the scope is open. */
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
  const preventExit: typeof process.exit = (code) => {
    if (currentAttempt.getStore() === undefined) return exit.call(process, code)
    handleUncaught("exit", undefined)
    throw new ExitPrevented("a handler cannot end the process with process.exit")
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      watchers++
      process.on("unhandledRejection", rejected).on("uncaughtException", thrown)
      process.exit = preventExit
    }),
    () =>
      Effect.sync(() => {
        watchers--
        process.off("unhandledRejection", rejected).off("uncaughtException", thrown)
        if (process.exit === preventExit) process.exit = exit
      })
  )
})
