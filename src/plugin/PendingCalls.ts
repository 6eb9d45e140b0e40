/**
 * The capability calls that one run of an async function (a handler or a step) has made.
 *
 * Invariants
 * 1. A run ends only after all its calls have ended
 *
 * Gotchas
 * - Only promises that the capabilities returned are tracked. A promise that the function created itself is noticed only if it is
 *   rejected and nothing awaits it. Then the process reports it.
 */
import { asNotAwaited, isHandlerError, Uncaught } from "./Failure.ts"

/** A promise that knows whether it was awaited. The promise that its `then` returns is an ordinary one. */
class TrackedPromise<A> extends Promise<A> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }
  awaited = false

  // oxlint-disable-next-line unicorn/no-thenable -- it is a promise
  override then<B = A, C = never>(
    done?: ((value: A) => B | PromiseLike<B>) | null,
    failed?: ((error: unknown) => C | PromiseLike<C>) | null
  ): Promise<B | C> {
    this.awaited = true
    return super.then(done, failed)
  }
}

/** Resolves after all work that is already queued has run. */
const nextEventLoopTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

export class PendingCalls {
  readonly #around: PendingCalls | null
  readonly #running = new Set<Promise<void>>()
  readonly #failed: Array<{ readonly name: string; readonly call: TrackedPromise<unknown>; readonly error: unknown }> =
    []
  #over = false

  /** `around`: for a step, the run that contains the step. Calls that are made after the step has ended belong to that run. */
  constructor(around: PendingCalls | null) {
    this.#around = around
  }

  /** Whether a call has not ended. */
  get isRunning(): boolean {
    return this.#running.size > 0
  }

  /** Tracks a call, and returns the promise to hand to the function. */
  add<A>(name: string, promise: Promise<A>): Promise<A> {
    if (this.#over) return this.#around === null ? promise : this.#around.add(name, promise)
    const call = new TrackedPromise<A>((resolve, reject) => void promise.then(resolve, reject))
    // `runAndAwaitCalls` reports the rejection, so the process must not see it as unhandled
    Promise.prototype.then.call(call, null, () => undefined)
    const ended = promise.then(() => undefined, (error: unknown) => void this.#failed.push({ name, call, error }))
    this.#running.add(ended)
    void ended.then(() => this.#running.delete(ended))
    return call
  }

  /** Runs the function. Fails with the function's own error, or with the error of a failed call that was never awaited. */
  async runAndAwaitCalls<A>(run: () => Promise<A>): Promise<A> {
    const result = await run().finally(() => this.#end())
    const unawaited = this.#failed.find(({ call }) => !call.awaited)
    if (unawaited === undefined) return result
    if (isHandlerError(unawaited.error)) throw asNotAwaited(unawaited.name, unawaited.error)
    throw new Uncaught(`${unawaited.name} failed, and its promise was not awaited`, { cause: unawaited.error })
  }

  async #end(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.all(this.#running)
      // code that awaited these calls may now make more calls
      await nextEventLoopTurn()
    }
    this.#over = true
  }
}
