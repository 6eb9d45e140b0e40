import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { acme, make, recorder } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

/** One running delivery, and two claimed ones in each of two integrations that wait for it. */
const busy = Effect.gen(function*() {
  const rig = yield* make
  const { received, note } = recorder()
  const started = yield* Deferred.make<void>()
  const goOn = yield* Deferred.make<void>()
  const plugin = Plugin.make("p").on(
    "ats.application.created",
    { concurrency: 1 },
    ({ recordId }) =>
      Effect.andThen(note(recordId), Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(goOn)))
  )
  const { plugins } = yield* rig.start([plugin])
  yield* rig.append("a1")
  for (const id of ["a2", "a3"]) yield* rig.append(id)
  for (const id of ["b1", "b2"]) yield* rig.append(id, { integration: "lever:beta" })
  yield* Deferred.await(started)
  const running = Effect.map(
    rig.deliveries.backlog,
    (backlog) => backlog.reduce((sum, { running }) => sum + running, 0)
  )
  yield* rig.until(() => running, (count) => count === 5)
  return { rig, plugins, received, running, goOn: Deferred.succeed(goOn, undefined) }
})

describe("a plugin that is switched off", () => {
  it.effect("a plugin that is switched off starts no claimed delivery, and loses none", () =>
    Effect.gen(function*() {
      const { goOn, received, plugins, rig, running } = yield* busy
      const all = { _tag: "Plugin", plugin: "p", integration: null } as const
      yield* plugins.setSwitch(all, false)
      yield* rig.until(() => running, (count) => count === 1)
      yield* goOn
      yield* rig.until(() => running, (count) => count === 0)
      assert.deepStrictEqual(received, ["a1"])
      yield* plugins.setSwitch(all, true)
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["a1", "a2", "a3", "b1", "b2"])
    }))

  it.effect("a plugin that is switched off in one integration continues in the others", () =>
    Effect.gen(function*() {
      const { goOn, received, plugins, rig, running } = yield* busy
      yield* plugins.setSwitch({ _tag: "Plugin", plugin: "p", integration: acme }, false)
      yield* rig.until(() => running, (count) => count === 3)
      yield* goOn
      yield* rig.until(() => running, (count) => count === 0)
      assert.deepStrictEqual(received.toSorted(), ["a1", "b1", "b2"])
    }))

  it.effect("a plugin that is switched off starts nothing more while a long log is dispatched, of which others get every event", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      for (let id = 0; id < 2_100; id++) yield* rig.append(`a${id}`)
      yield* rig.append("last", { model: "ats.tag" })
      const all = { _tag: "Plugin", plugin: "p", integration: null } as const
      const plugin = Plugin.make("p")
        .on("ats.application.created", {}, ({ recordId }) =>
          Effect.andThen(
            note(recordId),
            received.length === 1
              ? Effect.orDie(rig.deliveries.setSwitch(all, false, { at: 0, command: "test", target: "", detail: "" }))
              : Effect.void
          ))
        .with({ from: "oldest" })
      const tags: Array<string> = []
      const other = Plugin.make("other").with({ from: "oldest" })
        .on("ats.tag.created", {}, ({ recordId }) => Effect.sync(() => void tags.push(recordId)))
      const { delivery } = yield* rig.start([plugin, other])
      yield* rig.quiet(delivery)
      // deliveries of the previous claim
      assert.isAtMost(received.length, 300)
      assert.deepStrictEqual(tags, ["last"])
    }))
})
