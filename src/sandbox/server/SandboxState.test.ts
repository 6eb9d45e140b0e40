import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { World } from "../world/World.ts"
import { Account } from "./Account.ts"
import { FaultInjector } from "./FaultInjection.ts"
import { SandboxState } from "./SandboxState.ts"

const minute = 60_000

describe("the sandbox", () => {
  it.effect("handles other requests and signals while it simulates a long time, and ends at the same world", () =>
    Effect.gen(function*() {
      const fresh = () => World.make({ seed: 3, start: 0, records: 20, speed: 1000 })
      const [world, expected] = [fresh(), fresh()]
      const state = new SandboxState({
        world,
        faults: new FaultInjector(3, "none"),
        account: new Account(),
        key: "",
        cursorParameter: "cursor"
      })
      yield* TestClock.adjust("30 minutes")
      const advancing = yield* Effect.forkChild(state.advanceToNow)
      yield* Effect.yieldNow
      const done = world.log.length
      yield* Effect.yieldNow
      assert.isAbove(done, 0)
      assert.isAbove(world.log.length, done)
      assert.isBelow(world.now, 30 * minute)
      yield* Fiber.join(advancing)
      expected.advance(30 * minute)
      assert.deepStrictEqual([world.now, world.log], [expected.now, expected.log])
    }))
})
