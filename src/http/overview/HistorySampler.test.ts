import { assert, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { historyInterval } from "../../store/Operators.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import * as HistorySampler from "./HistorySampler.ts"
import type { Snapshot } from "./OverviewSnapshot.ts"
import { SharedOverview } from "./SharedOverview.ts"

const start = Date.parse("2026-03-01T12:00:30Z")

/** The state of a process whose log has as many events as there are minutes since the start. */
const processOf = (state: { failing: boolean }) =>
  Layer.succeed(SharedOverview, {
    get: () =>
      Effect.gen(function*() {
        if (state.failing) {
          const reason = new Unavailable({ operation: "read", cause: new StoreFault("silent", "here") })
          return yield* new StoreError({ reason })
        }
        const at = yield* Clock.currentTimeMillis
        const events = Math.round((at - start) / historyInterval)
        const sample = { at, events, unpublished: 0, deliveries: 0, deadLetters: 0, late: 0, blocked: 0, holds: 0 }
        return { at, sample } as Snapshot
      }),
    pause: Effect.succeed(0)
  })

const run = (state: { failing: boolean }, scope: Scope.Scope) =>
  Layer.buildWithScope(Layer.fresh(Layer.provide(HistorySampler.layer, processOf(state))), scope)

const events = Effect.flatMap(Store, ({ history }) => Effect.map(history(0), (all) => all.map(({ events }) => events)))

it.effect("the history continues over restarts, has one sample a minute in a fleet, and a gap while the store does not answer", () =>
  Effect.gen(function*() {
    yield* TestClock.setTime(start)
    const state = { failing: false }
    const [first, second] = [yield* Scope.make(), yield* Effect.scope]
    yield* run(state, first)
    yield* TestClock.adjust("3 minutes")
    assert.deepStrictEqual(yield* events, [1, 2, 3])
    yield* Scope.close(first, yield* Effect.exit(Effect.void))
    yield* TestClock.adjust("2 minutes")
    assert.deepStrictEqual(yield* events, [1, 2, 3])
    yield* run(state, second)
    yield* TestClock.adjust("20 seconds")
    yield* run(state, second)
    yield* TestClock.adjust("100 seconds")
    assert.deepStrictEqual(yield* events, [1, 2, 3, 6, 7])
    state.failing = true
    yield* TestClock.adjust("2 minutes")
    state.failing = false
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* events, [1, 2, 3, 6, 7, 9, 10])
  }).pipe(Effect.provide(MemoryStore.layer())))

it.effect("the history has no gap if a read of the state takes so long that each one shows the state of the one before", () =>
  Effect.gen(function*() {
    yield* TestClock.setTime(start)
    let before = start
    const sampleAt = (at: number) => ({
      at,
      events: Math.round((at - start) / historyInterval),
      unpublished: 0,
      deliveries: 0,
      deadLetters: 0,
      late: 0,
      blocked: 0,
      holds: 0
    })
    const slow = Layer.succeed(SharedOverview, {
      get: () =>
        Effect.gen(function*() {
          const shown = before
          before = yield* Clock.currentTimeMillis
          yield* Effect.sleep("700 millis")
          return { at: shown, sample: sampleAt(shown) } as Snapshot
        }),
      pause: Effect.succeed(0)
    })
    yield* Layer.build(Layer.provide(HistorySampler.layer, slow))
    yield* TestClock.adjust("5 minutes")
    assert.deepStrictEqual(yield* events, [0, 1, 2, 3])
  }).pipe(Effect.provide(MemoryStore.layer())))
