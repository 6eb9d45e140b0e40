/**
 * What one run of an async function, a handler or a step, has called. Hides how a call is told that nothing awaits.
 *
 * Invariants
 * 1. A run is not over before all that it called is
 *
 * Gotchas
 * - Only what the capabilities gave is known here. A promise that the function made itself is seen by the process alone, when
 *   it is rejected and nothing awaits it.
 */
import { asNotAwaited, isHandlerError, Uncaught } from "./Failure.ts"

/** Knows whether something awaits it. What is made of it by `then` is a promise as any other. */
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

/** Returns once all that is due at once is done. */
const nextEventLoopTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

export class PendingCalls {
  readonly #around: PendingCalls | null
  readonly #running = new Set<Promise<void>>()
  readonly #failed: Array<{ readonly what: string; readonly call: TrackedPromise<unknown>; readonly error: unknown }> =
    []
  #over = false

  /** Of a step: what is called after it is over belongs to the run around it. */
  constructor(around: PendingCalls | null) {
    this.#around = around
  }

  /** Notes a call; the promise is what the function is given. */
  add<A>(what: string, promise: Promise<A>): Promise<A> {
    if (this.#over) return this.#around === null ? promise : this.#around.add(what, promise)
    const call = new TrackedPromise<A>((resolve, reject) => void promise.then(resolve, reject))
    // it is told by the run, not by the process
    Promise.prototype.then.call(call, null, () => undefined)
    const ended = promise.then(() => undefined, (error: unknown) => void this.#failed.push({ what, call, error }))
    this.#running.add(ended)
    void ended.then(() => this.#running.delete(ended))
    return call
  }

  /** Runs the function; fails with what it failed with, or with a call that failed and that nothing awaited. */
  async runAndAwaitCalls<A>(run: () => Promise<A>): Promise<A> {
    const result = await run().finally(() => this.#end())
    const lost = this.#failed.find(({ call }) => !call.awaited)
    if (lost === undefined) return result
    if (isHandlerError(lost.error)) throw asNotAwaited(lost.what, lost.error)
    throw new Uncaught(`${lost.what} failed, and its promise was not awaited`, { cause: lost.error })
  }

  async #end(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.all(this.#running)
      // what awaited them may call again
      await nextEventLoopTurn()
    }
    this.#over = true
  }
}
