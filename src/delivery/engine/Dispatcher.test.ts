import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { make } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { maxClaimedPerHandler } from "./ClaimRequests.ts"

describe("the dispatcher", () => {
  it.effect("waits while each handler has claimed as many deliveries as it may, and then goes on to the end of the log", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const gate = yield* Latch.make()
      let done = 0
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        "ats.application.created",
        {},
        () => Effect.andThen(gate.await, Effect.sync(() => void done++))
      )
      const count = 4 * maxClaimedPerHandler
      for (let index = 0; index < count; index++) yield* rig.append(`a${index}`)
      const { delivery, plugins } = yield* rig.start([plugin])
      yield* Effect.addFinalizer(() => gate.open)
      const lag = Effect.map(Effect.orDie(plugins.view), (view) => view.plugins[0]?.handlers[0]?.lag_events ?? count)
      yield* rig.until(() => lag, (events) => events < count)
      for (let step = 0; step < 50; step++) yield* Effect.yieldNow
      yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
      assert.isAtLeast(yield* lag, 2 * maxClaimedPerHandler)
      yield* gate.open
      yield* rig.quiet(delivery)
      assert.strictEqual(done, count)
    }))

  it.effect("waits if every event that a handler has not read is pruned, and does not look for them in circles", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const received: Array<string> = []
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        "ats.application.created",
        {},
        ({ recordId }) => Effect.sync(() => void received.push(recordId))
      )
      for (const id of ["a1", "a2"]) yield* rig.append(id)
      yield* rig.store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 2 })
      let rounds = 0
      rig.beforeClaim = () => ++rounds > 100 ? Effect.die("the engine runs in circles") : Effect.void
      const { delivery } = yield* rig.start([plugin])
      yield* rig.quiet(delivery)
      yield* rig.append("a3")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["a3"])
    }))
})
