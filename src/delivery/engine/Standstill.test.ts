import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { acme, action, applications, make, recorder } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"
const failing = new Plugin.Transient({ message: "not yet" })

describe("a configuration that throws", () => {
  it.effect("a configuration that throws holds only the deliveries of its integration, and is reported", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const plugin = Plugin.make("p", {
        config: Config.map(Config.String("SECRET"), (text) => JSON.parse(text))
      })
        .with({ values: { SECRET: "1" }, integrations: { "lever:beta": { values: { SECRET: "hush-hush" } } } })
        .on(trigger, {}, ({ recordId }) => note(recordId))
      const { delivery } = yield* rig.start([plugin])
      for (let index = 0; index < 5; index++) yield* rig.append(`b${index}`, { integration: "lever:beta" })
      yield* rig.append("a1")
      yield* rig.until(() => received.length === 1)
      yield* rig.until(() => delivery.status, ({ unconfigured }) => unconfigured.length === 1)
      const [one] = (yield* delivery.status).unconfigured
      assert.strictEqual(one?.integration, "lever:beta")
      assert.notInclude(one?.message, "hush")
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.due === 5)
    }))
})

describe("an error that cannot be read", () => {
  it.effect("a handler that throws it gets its other deliveries, and each thrown error is a dead letter", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const unreadable = Object.assign(new Error("x"), { message: Object.create(null) })
      const plugin = Plugin.make("p").on(
        trigger,
        { attempts: 1, concurrency: 1 },
        ({ recordId }) => recordId === "last" ? note(recordId) : Effect.die(unreadable)
      )
      yield* rig.start([plugin])
      for (const id of ["a1", "a2", "last"]) yield* rig.append(id)
      yield* rig.dead(2)
      yield* rig.until(() => received.length === 1)
      const letters = yield* rig.deliveries.deadLetters({ limit: 10 })
      assert.deepStrictEqual(letters.map(({ failure }) => failure.reason), ["Defect", "Defect"])
    }))
})

describe("a record that is forgotten", () => {
  it.effect("its delete is delivered at once if forgetting cancels the dead letter that it waited for", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const plugin = Plugin.make("p").onAny(
        ["ats.application.created", "ats.application.deleted"],
        { as: "p", attempts: 1 },
        ({ kind }) => kind === "created" ? Effect.fail(failing) : note(kind)
      )
      const { delivery } = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.dead(1)
      yield* rig.append("a1", { kind: "deleted", reason: "forgotten", after: null })
      yield* rig.quiet(delivery)
      yield* rig.deliveries.purgeForgotten(applications, ["a1"], { found: [], own: true })
      yield* rig.empty
      assert.deepStrictEqual(received, ["deleted"])
    }))
})

describe("a clock that was far ahead and is corrected", () => {
  const broken = Effect.fnUntraced(function*(records: number) {
    const rig = yield* make
    const { received, note } = recorder()
    let isAhead = true
    yield* TestClock.setTime(Duration.toMillis("365 days"))
    yield* rig.start([
      Plugin.make("p").on(trigger, {}, ({ recordId }) => isAhead ? failing : note(recordId))
    ])
    for (let index = 0; index < records; index++) yield* rig.append(`a${index}`)
    yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === records)
    const [handler] = yield* rig.deliveries.handlers
    isAhead = false
    yield* TestClock.setTime(Duration.toMillis("30 days"))
    yield* rig.append("last")
    yield* rig.empty
    assert.strictEqual(received.length, records + 1)
    return handler?.circuit.openUntil
  })

  it.effect("a corrected clock delays no retry that was scheduled before (W4)", () =>
    Effect.gen(function*() {
      assert.isNull(yield* broken(3))
    }))

  it.effect("a corrected clock keeps no handler circuit open (W4)", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* broken(10), Duration.toMillis("365 days") + 30_000)
    }))
})

describe("switches", () => {
  it.effect("a switch holds a plugin, everywhere or in one integration, and loses no delivery", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const plugin = Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))
      const { delivery } = yield* rig.start([plugin])
      const here = { _tag: "Plugin", plugin: "p", integration: acme } as const
      const everywhere = { ...here, integration: null }
      yield* rig.deliveries.setSwitch(here, false, action)
      yield* rig.append("a1")
      yield* rig.append("b1", { integration: "lever:beta" })
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["b1"])
      yield* rig.deliveries.setSwitch(everywhere, false, action)
      yield* rig.append("b2", { integration: "lever:beta" })
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["b1"])
      yield* rig.deliveries.setSwitch(everywhere, true, action)
      yield* rig.until(() => received.length === 2)
      assert.deepStrictEqual(yield* rig.deliveries.switchedOff, [here])
      yield* rig.deliveries.setSwitch(here, true, action)
      yield* rig.empty
      assert.deepStrictEqual(received, ["b1", "b2", "a1"])
    }))

  it.effect("a plugin that is switched off while its delivery is being claimed does not start it", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const { delivery } = yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      const off = yield* Deferred.make<void>()
      let claims = 0
      rig.beforeClaim = () => Effect.andThen(Effect.sync(() => claims++), Deferred.await(off))
      yield* rig.append("a1")
      yield* rig.until(() => claims > 0)
      const everywhere = { _tag: "Plugin", plugin: "p", integration: null } as const
      yield* rig.deliveries.setSwitch(everywhere, false, action)
      yield* Deferred.succeed(off, undefined)
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, [])
      yield* rig.deliveries.setSwitch(everywhere, true, action)
      yield* rig.empty
      assert.deepStrictEqual(received, ["a1"])
    }))

  it.effect("a plugin that is switched on during a claim is not left waiting for the next event", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const { delivery } = yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      const everywhere = { _tag: "Plugin", plugin: "p", integration: null } as const
      yield* rig.deliveries.setSwitch(everywhere, false, action)
      yield* rig.append("a1")
      yield* rig.quiet(delivery)
      const on = yield* Effect.cached(Effect.orDie(rig.deliveries.setSwitch(everywhere, true, action)))
      rig.beforeClaim = () => on
      yield* rig.append("t1", { model: "ats.tag" })
      yield* rig.empty
      assert.deepStrictEqual(received, ["a1"])
    }))

  it.effect("a delivery that was claimed before the switches could not be read is released, and delivered later (X10)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      const switched = yield* Deferred.make<void>()
      let claims = 0
      rig.beforeClaim = () => Effect.andThen(Effect.sync(() => claims++), Deferred.await(switched))
      yield* rig.append("a1")
      yield* rig.until(() => claims > 0)
      rig.failingSwitchReads = 1
      yield* rig.deliveries.setSwitch({ _tag: "Plugin", plugin: "other", integration: null }, false, action)
      yield* Deferred.succeed(switched, undefined)
      yield* rig.until(() => rig.failingSwitchReads === 0)
      assert.deepStrictEqual(received, [])
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received, ["a1"])
    }))

  it.effect("a switch takes effect even if the store was unavailable when the engine read it (X10)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      rig.failingSwitchReads = 1
      yield* rig.deliveries.setSwitch({ _tag: "Plugin", plugin: "p", integration: null }, false, action)
      yield* rig.until(() => rig.failingSwitchReads === 0)
      yield* TestClock.adjust("1 minute")
      yield* rig.until(() => rig.failingSwitchReads < 0)
      yield* rig.append("a1")
      yield* rig.until(() => rig.deliveries.backlog, (backlog) => backlog[0]?.due === 1)
      assert.deepStrictEqual(received, [])
    }))
})
