import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { make } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"

/** Delivers one event to a handler with a step of this name, inside another step; returns the dead letters and how often the step ran. */
const run = Effect.fnUntraced(function*(name: string) {
  const rig = yield* make
  let runs = 0
  const plugin = Plugin.make("p").on(
    trigger,
    {},
    () =>
      Plugin.Journal.use((journal) =>
        journal.once("outer", Schema.Void, journal.once(name, Schema.Void, Effect.sync(() => void runs++)))
      )
  )
  yield* rig.start([plugin])
  yield* rig.append("a1")
  return { rig, runs: () => runs }
})

describe("the name of a step", () => {
  it.effect("may have 1,000 bytes, together with the names of the steps around it", () =>
    Effect.gen(function*() {
      const { rig, runs } = yield* run("ä".repeat(497))
      yield* rig.until(() => runs() > 0)
      yield* rig.empty
      assert.strictEqual(runs(), 1)
    }))

  it.effect.each([
    { name: "ä".repeat(498), problem: "more than 1000 bytes" },
    { name: "a\0", problem: "a null character or half a surrogate pair" },
    { name: "a\ud800", problem: "a null character or half a surrogate pair" }
  ])(
    "that no store can keep makes the delivery a dead letter, and the step does not run: $problem",
    ({ name, problem }) =>
      Effect.gen(function*() {
        const { rig, runs } = yield* run(name)
        yield* rig.dead(1)
        const [letter] = yield* rig.deliveries.deadLetters({ limit: 1 })
        assert.include(letter?.failure.message, `the name of a step has ${problem}; it starts with "outer/`)
        assert.strictEqual(runs(), 0)
      })
  )
})
