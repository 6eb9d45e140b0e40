/** Two engines over one store, each in a process of its own, in virtual time. */
import { afterEach, beforeEach, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { deliveryScopeOf, shardOf } from "../../../src/domain/Shard.ts"
import type * as Plugin from "../../../src/plugin/Plugin.ts"
import { make, type Rig } from "./Rig.ts"
import * as TestPlacement from "./TestPlacement.ts"

export const trigger = "ats.application.created"
export const other = "lever:beta"
/** The clocks of the thread, in ms, by which the watchdog of a process finds a handler that does not yield. */
let computed = 0
/** A handler uses this much processor time without yielding, in ms. */
export const compute = (millis: number) => void (computed += millis)

/** The tests of the file use the timer and the clocks of the watchdog. */
export const useWatchdogClocks = () => {
  beforeEach(() => {
    computed = 0
    // the watchdog looks at the clocks with this timer
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    vi.spyOn(performance, "now").mockImplementation(() => computed)
    vi.spyOn(process, "threadCpuUsage").mockImplementation(() => ({ user: computed * 1_000, system: 0 }))
  })
  afterEach(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })
}

export const scopeOf = (integration: string) => deliveryScopeOf(shardOf(integration))

/** Two processes: the first one creates all deliveries, and each runs those of one integration. `before`: while the first is alone. */
export const pair = Effect.fnUntraced(function*(
  plugin: Plugin.Plugin<unknown>,
  before: (rig: Rig) => Effect.Effect<void> = () => Effect.void
) {
  const rig = yield* make
  const placement = TestPlacement.make()
  const first = yield* rig.startIn([plugin], placement.layer(1))
  yield* before(rig)
  const second = yield* rig.startIn([plugin], placement.layer(2))
  const move = (integration: string, to: number) => placement.move(scopeOf(integration), to)
  yield* move(other, 2)
  const passTime = (seconds: number) =>
    Effect.gen(function*() {
      for (let step = 0; step < seconds * 4; step++) {
        yield* TestClock.adjust("250 millis")
        vi.advanceTimersByTime(250)
        yield* rig.until(() => true)
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
    })
  yield* passTime(3)
  return { rig, placement, move, passTime, first: first.delivery, second: second.delivery }
})
