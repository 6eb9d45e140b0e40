import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import * as Rig from "./Rig.ts"

describe("the delivery engine", () => {
  it.effect("hands events of the log to the handlers of their trigger, and leaves nothing behind", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const met: Array<string> = []
      const plugin = Plugin.make("greeter")
        .on(
          "ats.application.hired",
          {},
          (event) => Effect.sync(() => met.push(`${event.recordId} ${event.transition.to} ${event.kind}`))
        )
        .on("ats.application.updated", {}, (event) => Effect.sync(() => met.push(`${event.recordId} updated`)))
      const { delivery } = yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* rig.append("a1")
      yield* rig.append("a2")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(met, ["a1 HIRED created", "a1 updated"])
      assert.deepStrictEqual(yield* rig.deliveries.backlog, [])
    }))
})
