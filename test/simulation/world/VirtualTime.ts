/**
 * Virtual time for a whole service: one queue of tasks and one of timers. Time passes only when the caller advances it.
 *
 * Invariants
 * 1. The same program with the same advances runs in the same order. No event loop, no real clock and no promise is involved.
 * 2. A timer fires only when no fiber can still run before it.
 *
 * Gotchas
 * - Effect's `TestClock` waits for real turns of the event loop to let fibers settle: time overtakes a fiber that yields more
 *   often than the clock waits.
 * - All processes of one world share the timers; each process has its own clock error.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Scheduler, SchedulerDispatcher } from "effect/Scheduler"

type Task = () => void

/** A settling service needs some thousand turns at most. */
const mostTurns = 200_000

interface Timer {
  readonly at: number
  readonly order: number
  fire: Task | null
}

export class VirtualTime implements Scheduler {
  readonly executionMode = "async"
  #now: number
  #order = 0
  #tasks: Array<Task> = []
  readonly #timers: Array<Timer> = []
  readonly #dispatcher: SchedulerDispatcher = {
    scheduleTask: (task) => void this.#tasks.push(task),
    flush: () => this.#settle()
  }

  constructor(start: number) {
    this.#now = start
  }

  /** ms */
  get now(): number {
    return this.#now
  }

  shouldYield(fiber: { readonly currentOpCount: number }): boolean {
    return fiber.currentOpCount >= 2048
  }

  makeDispatcher(): SchedulerDispatcher {
    return this.#dispatcher
  }

  /** Runs everything that is due until `to`. */
  advance(to: number): void {
    for (;;) {
      this.#settle()
      const timer = this.#next(to)
      if (timer === undefined) break
      this.#now = Math.max(this.#now, timer.at)
      timer.fire?.()
    }
    this.#now = Math.max(this.#now, to)
  }

  /** Advances until `effect` ends, at most to `limit`; undefined if it has not ended by then. */
  run<A, E>(effect: Effect.Effect<A, E>, limit: number): A | undefined {
    const fiber = Effect.runFork(effect, { scheduler: this })
    for (;;) {
      this.#settle()
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) {
        if (exit._tag === "Success") return exit.value
        throw new Error(String(exit.cause))
      }
      const timer = this.#next(limit)
      if (timer === undefined) return undefined
      this.#now = Math.max(this.#now, timer.at)
      timer.fire?.()
    }
  }

  /** The clock of one process, `skew()` ms ahead. Setting the clock does not affect fibers that sleep. */
  clock(skew: () => number): Clock.Clock {
    const millis = () => this.#now + skew()
    const nanos = () => BigInt(Math.round(millis())) * 1_000_000n
    const steady = () => BigInt(Math.round(this.#now)) * 1_000_000n
    return {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: steady,
      monotonicTimeNanos: Effect.sync(steady),
      sleep: (duration) => this.sleep(Duration.toMillis(duration))
    }
  }

  sleep(millis: number): Effect.Effect<void> {
    if (millis <= 0) return Effect.yieldNow
    if (!Number.isFinite(millis)) return Effect.never
    return Effect.callback((resume) => {
      const timer: Timer = { at: this.#now + millis, order: this.#order++, fire: () => resume(Effect.void) }
      this.#insert(timer)
      return Effect.sync(() => {
        timer.fire = null
      })
    })
  }

  #settle(): void {
    for (let turns = 0; this.#tasks.length > 0; turns++) {
      if (turns === mostTurns) throw new Error("a process runs in circles without waiting")
      const tasks = this.#tasks
      this.#tasks = []
      for (const task of tasks) task()
    }
  }

  #next(limit: number): Timer | undefined {
    const timer = this.#timers.at(-1)
    return timer === undefined || timer.at > limit ? undefined : this.#timers.pop()
  }

  /** Sorted with the latest timer first. */
  #insert(timer: Timer): void {
    let from = 0
    let to = this.#timers.length
    while (from < to) {
      const middle = (from + to) >> 1
      const other = this.#timers[middle]!
      if (other.at > timer.at || (other.at === timer.at && other.order > timer.order)) from = middle + 1
      else to = middle
    }
    this.#timers.splice(from, 0, timer)
  }
}
