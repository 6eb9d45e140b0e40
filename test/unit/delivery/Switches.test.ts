import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { acme, make, recorder } from "./Rig.ts"

/** One delivery under way, and two claimed ones of each of two integrations that wait for it. */
const busy = Effect.gen(function*() {
  const rig = yield* make
  const { met, note } = recorder()
  const begun = yield* Deferred.make<void>()
  const goOn = yield* Deferred.make<void>()
  const plugin = Plugin.make("p").on(
    "ats.application.created",
    { concurrency: 1 },
    ({ recordId }) =>
      Effect.andThen(note(recordId), Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(goOn)))
  )
  const { plugins } = yield* rig.start([plugin])
  yield* rig.append("a1")
  for (const id of ["a2", "a3"]) yield* rig.append(id)
  for (const id of ["b1", "b2"]) yield* rig.append(id, { integration: "lever:beta" })
  yield* Deferred.await(begun)
  const running = Effect.map(
    rig.deliveries.backlog,
    (backlog) => backlog.reduce((sum, { running }) => sum + running, 0)
  )
  yield* rig.until(() => running, (count) => count === 5)
  return { rig, plugins, met, running, goOn: Deferred.succeed(goOn, undefined) }
})

describe("a plugin that is switched off", () => {
  it.effect("begins nothing more, also of what was claimed before, and loses nothing", () =>
    Effect.gen(function*() {
      const { goOn, met, plugins, rig, running } = yield* busy
      const all = { _tag: "Plugin", plugin: "p", integration: null } as const
      yield* plugins.setSwitch(all, false)
      yield* rig.until(() => running, (count) => count === 1)
      yield* goOn
      yield* rig.until(() => running, (count) => count === 0)
      assert.deepStrictEqual(met, ["a1"])
      yield* plugins.setSwitch(all, true)
      yield* rig.empty
      assert.deepStrictEqual(met.toSorted(), ["a1", "a2", "a3", "b1", "b2"])
    }))

  it.effect("for one integration goes on with the claimed deliveries of the others", () =>
    Effect.gen(function*() {
      const { goOn, met, plugins, rig, running } = yield* busy
      yield* plugins.setSwitch({ _tag: "Plugin", plugin: "p", integration: acme }, false)
      yield* rig.until(() => running, (count) => count === 3)
      yield* goOn
      yield* rig.until(() => running, (count) => count === 0)
      assert.deepStrictEqual(met.toSorted(), ["a1", "b1", "b2"])
    }))

  it.effect("begins nothing more while a long log is being dispatched", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { met, note } = recorder()
      for (let id = 0; id < 2_100; id++) yield* rig.append(`a${id}`)
      const all = { _tag: "Plugin", plugin: "p", integration: null } as const
      const plugin = Plugin.make("p")
        .on("ats.application.created", {}, ({ recordId }) =>
          Effect.andThen(
            note(recordId),
            met.length === 1
              ? Effect.orDie(rig.deliveries.setSwitch(all, false, { at: 0, command: "test", target: "", detail: "" }))
              : Effect.void
          ))
        .with({ from: "oldest" })
      const { delivery } = yield* rig.start([plugin])
      yield* rig.quiet(delivery)
      // those that were claimed in the turn before
      assert.isAtMost(met.length, 300)
    }))
})
