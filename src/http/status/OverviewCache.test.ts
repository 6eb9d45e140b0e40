/** The values that requests get while the store is slow, hangs or fails. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { withTurns } from "../../../test/support/Turns.ts"
import { StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { makeCachedRead, makeCachedReads, warmUp, withCurrentFreshness } from "./OverviewCache.ts"

const failure = new StoreError({
  reason: new Unavailable({ operation: "overview", cause: new StoreFault("full", "here") })
})

/** A store whose value counts the reads, and a function that sets the behavior of the next read. */
const scripted = Effect.gen(function*() {
  let readings = 0
  let how: Effect.Effect<void, StoreError> = Effect.void
  const get = yield* makeCachedRead(Effect.suspend(() => {
    const reading = ++readings
    return Effect.as(how, reading)
  }))
  return {
    get,
    readings: () => readings,
    next: (effect: Effect.Effect<void, StoreError>) => {
      how = effect
    }
  }
})

/** The result, and after how many ms it came. */
const timed = <A, E>(get: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const begunAt = yield* Clock.currentTimeMillis
    const fiber = yield* Effect.forkChild(
      Effect.zip(Effect.result(get), Effect.map(Clock.currentTimeMillis, (now) => now - begunAt))
    )
    yield* TestClock.adjust("1 second")
    return yield* Fiber.join(fiber)
  })

describe("the cached overview of a store", () => {
  it.effect("is read again for each request while the store answers", () =>
    Effect.gen(function*() {
      const { get } = yield* scripted
      assert.deepStrictEqual(yield* get, { value: 1, at: 0, stale: null })
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* get, { value: 2, at: 5_000, stale: null })
    }))

  it.effect("is the last value, within a second, while the store hangs, and reads do not pile up (X10)", () =>
    Effect.gen(function*() {
      const { get, next, readings } = yield* scripted
      yield* get
      const stuck = yield* Deferred.make<void>()
      next(Deferred.await(stuck))
      const [first, waited] = yield* timed(get)
      assert.deepInclude(first, { _tag: "Success" })
      assert.strictEqual(waited, 700)
      for (let times = 0; times < 50; times++) {
        const seen = yield* get
        assert.deepStrictEqual([seen.value, seen.at], [1, 0])
        assert.match(seen.stale?.reason.hint ?? "", /does not answer/)
      }
      assert.strictEqual(readings(), 2)
      next(Effect.void)
      yield* Deferred.succeed(stuck, undefined)
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* get, { value: 3, stale: null })
    }))

  it.effect("is the last value with the error while the store fails, or the error if there is no value", () =>
    Effect.gen(function*() {
      const { get, next } = yield* scripted
      next(Effect.fail(failure))
      assert.strictEqual(yield* Effect.flip(get), failure)
      next(Effect.void)
      yield* get
      next(Effect.fail(failure))
      assert.deepStrictEqual(yield* get, { value: 2, at: 0, stale: failure })
    }))

  it.effect("is not replaced by a read that started earlier and ended later", () =>
    Effect.gen(function*() {
      const { get, next } = yield* scripted
      const slow = yield* Deferred.make<void>()
      next(Deferred.await(slow))
      const early = yield* Effect.forkChild(get)
      yield* TestClock.adjust("100 millis")
      next(Effect.void)
      assert.deepInclude(yield* get, { value: 2, at: 100 })
      yield* Deferred.succeed(slow, undefined)
      assert.deepInclude(yield* Fiber.join(early), { value: 1, stale: null })
      next(Effect.fail(failure))
      assert.deepInclude(yield* get, { value: 2, at: 100 })
    }))

  it.effect("is the newest value, and reads do not pile up, if our clock is set back (W4)", () =>
    Effect.gen(function*() {
      const { get, next, readings } = yield* scripted
      const clock = yield* Clock.Clock
      let ahead = 3_600_000
      const set = Clock.Clock.of({
        ...clock,
        sleep: (duration) => clock.sleep(duration),
        monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + ahead,
        currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + ahead)
      })
      const wall = Effect.provideService(get, Clock.Clock, set)
      yield* wall
      ahead = 0
      yield* wall
      next(Effect.fail(failure))
      assert.deepStrictEqual(yield* wall, { value: 2, at: 0, stale: failure })
      const stuck = yield* Deferred.make<void>()
      next(Deferred.await(stuck))
      ahead = 3_600_000
      yield* timed(wall)
      ahead = 0
      const before = readings()
      for (let times = 0; times < 5; times++) yield* timed(wall)
      assert.strictEqual(readings(), before)
    }))

  it.effect("is present from the start although the first read takes seconds, and requests do not wait while it hangs (X10)", () =>
    Effect.gen(function*() {
      const slow = yield* scripted
      slow.next(Effect.sleep("3 seconds"))
      const ready = yield* Effect.forkChild(warmUp(slow.get))
      yield* TestClock.adjust("4 seconds")
      const get = yield* Fiber.join(ready)
      const [seen] = yield* timed(get)
      assert.deepInclude(seen, { _tag: "Success" })
      assert.strictEqual(slow.readings(), 2)

      const stuck = yield* scripted
      stuck.next(Effect.never)
      const fiber = yield* Effect.forkChild(warmUp(stuck.get))
      yield* TestClock.adjust("6 seconds")
      assert.match((yield* Effect.flip(yield* Fiber.join(fiber))).reason.hint, /does not answer/)
      assert.strictEqual(stuck.readings(), 1)
    }))

  it.effect("is read in part if a request needs only a part, which comes from the last value while the store fails", () =>
    Effect.gen(function*() {
      let broken = false
      let wholes = 0
      const { part, whole } = yield* makeCachedReads(Effect.sync(() => [++wholes, 20, 30]))
      const second = part(
        Effect.suspend(() => broken ? Effect.fail(failure) : Effect.succeed(21)),
        (last) => last[1]!
      )
      assert.deepStrictEqual(yield* second, { value: 21, at: 0, stale: null })
      assert.strictEqual(wholes, 0)
      broken = true
      assert.strictEqual(yield* Effect.flip(second), failure)
      yield* whole
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* second, { value: 20, at: 0, stale: failure })
      broken = false
      assert.deepStrictEqual(yield* second, { value: 21, at: 5_000, stale: null })
    }))
})

describe("the freshness of many cached streams", () => {
  it.effect("grows with their age, and other fibers run meanwhile (I9)", () =>
    Effect.gen(function*() {
      const views = Array.from(
        { length: 1_000 },
        (_, index) => ({ freshness_seconds: index === 3 ? null : index }) as StreamView
      )
      const { result, turns } = yield* withTurns(withCurrentFreshness(views, 2_500))
      assert.strictEqual(turns, 4)
      assert.deepStrictEqual(
        result.map((view) => view.freshness_seconds),
        views.map((view) => view.freshness_seconds === null ? null : view.freshness_seconds + 2.5)
      )
      assert.strictEqual(yield* withCurrentFreshness(views, 0), views)
    }))
})
