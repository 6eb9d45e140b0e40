/** Handlers that have another form after a restart, but the same name: the deliveries that they left continue. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { acme, make, recorder, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { deliveryReader } from "../../store/Delivery.ts"

const trigger = "ats.application.created"
const beta = "lever:beta"
type Started = Effect.Success<ReturnType<Rig["start"]>>
const failing = new Plugin.Transient({ message: "not yet" })
const records = ["a1", "a2", "a3"]

/** Three events in one batch, whose first attempt has failed after `step` was run. */
const undelivered = (step: Effect.Effect<void, Plugin.HandlerError, Plugin.Journal>) =>
  Effect.gen(function*() {
    const rig = yield* make
    const plugin = Plugin.make("p")
      .batch(trigger, { size: 3, within: "1 minute" }, () => Effect.andThen(step, failing))
    const { stop } = yield* rig.start([plugin])
    for (const id of records) yield* rig.append(id)
    yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === 3)
    yield* stop
    return rig
  })

describe("a handler of batches that takes single events after a restart", () => {
  it.effect("each event of an unsettled batch is delivered alone (L7)", () =>
    Effect.gen(function*() {
      const { received, note } = recorder()
      const rig = yield* undelivered(Effect.void)
      yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), records)
    }))

  it.effect("a step that the batch has done is not repeated, and a new step runs once for each event (L4)", () =>
    Effect.gen(function*() {
      const { received, note } = recorder()
      const once = (name: string, text: string) => Plugin.Journal.once(name, Schema.Void, note(text))
      const rig = yield* undelivered(once("report", "report of the batch"))
      const single = Plugin.make("p").on(
        trigger,
        {},
        ({ recordId }) => Effect.andThen(once("report", `report ${recordId}`), once("mail", `mail ${recordId}`))
      )
      yield* rig.start([single])
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["mail a1", "mail a2", "mail a3", "report of the batch"])
    }))
})

describe("a handler that takes events and then ticks, or the other way around", () => {
  it.effect("its deliveries of the earlier kind wait until it takes them again", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const onEvents = (run: (event: { readonly recordId: string }) => Plugin.HandlerEffect) =>
        Plugin.make("p").on(trigger, { as: "x" }, run)
      const onTicks = Plugin.make("p").with({ others: false, integrations: { [acme]: true } })
        .every("1 hour", { as: "x" }, ({ scheduledAt }) => note(scheduledAt.toISOString()))
      const first = yield* rig.start([onEvents(() => failing)])
      yield* rig.append("a1")
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === 1)
      yield* first.stop
      const second = yield* rig.start([onTicks])
      yield* TestClock.adjust("1 hour")
      yield* rig.until(() => received.length === 1)
      yield* rig.quiet(second.delivery)
      assert.deepStrictEqual(received, ["1970-01-01T01:00:00.000Z"])
      yield* second.stop
      yield* rig.start([onEvents(({ recordId }) => note(recordId))])
      yield* rig.empty
      assert.deepStrictEqual(received, ["1970-01-01T01:00:00.000Z", "a1"])
    }))

  /** A plugin whose handler "x" takes ticks, and one whose handler "x" takes events. Both record what they get. */
  const forms = (fails: (integration: string) => boolean = () => false) => {
    const { received, note } = recorder()
    const settings = { others: false, integrations: { [acme]: true, [beta]: true } }
    const ticks = Plugin.make("p").with(settings).every(
      "1 hour",
      { as: "x", attempts: 1_000 },
      ({ from, integration, to }) =>
        Effect.gen(function*() {
          const events = yield* Plugin.Events.between(trigger, from, to)
          if (fails(integration)) return yield* failing
          if (events.length > 0) yield* note(`tick ${events.map(({ recordId }) => recordId).join(" ")}`)
        })
    )
    const events = Plugin.make("p").with(settings).on(trigger, { as: "x" }, ({ recordId }) => note(recordId))
    return { received, ticks, events }
  }
  const hourly = Effect.fnUntraced(function*(rig: Rig, process: Started) {
    yield* rig.quiet(process.delivery)
    yield* TestClock.adjust("1 hour")
    yield* rig.quiet(process.delivery)
  })

  it.effect("each event of the log is in one tick or delivered alone, however often the form changes (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { events, received, ticks } = forms()
      let process: Started = yield* rig.start([ticks])
      for (let round = 0; round < 3; round++) {
        yield* rig.append(`ticked${round}`)
        yield* hourly(rig, process)
        yield* rig.append(`late${round}`)
        yield* process.stop
        process = yield* rig.start([events])
        yield* rig.append(`single${round}`)
        yield* hourly(rig, process)
        const { newest } = yield* rig.store.logRange
        assert.strictEqual(yield* rig.store.readerPosition(deliveryReader), newest)
        yield* process.stop
        process = yield* rig.start([ticks])
      }
      assert.deepStrictEqual(
        received,
        [0, 1, 2].flatMap((round) => [`tick ticked${round}`, `late${round}`, `single${round}`])
      )
    }))

  it.effect("events of the time in which its plugin was turned off in the integration are in no tick, and are not delivered either (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { events, received, ticks } = forms()
      const off = ticks.with({ others: false, integrations: { [acme]: false, [beta]: true } })
      const first = yield* rig.start([ticks])
      yield* rig.append("ticked")
      yield* hourly(rig, first)
      yield* first.stop
      const second = yield* rig.start([off])
      yield* rig.append("off")
      yield* hourly(rig, second)
      yield* second.stop
      yield* rig.append("still off")
      for (const id of ["on", "later"]) {
        const third = yield* rig.start([events])
        yield* rig.append(id)
        yield* rig.quiet(third.delivery)
        yield* third.stop
        yield* rig.append(`after ${id}`)
      }
      yield* rig.start([events])
      yield* rig.empty
      assert.deepStrictEqual(received, ["tick ticked", "on", "after on", "later", "after later"])
    }))

  it.effect("an integration continues after its own last tick, even if that tick waits (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { events, received, ticks } = forms((integration) => integration === beta)
      const first = yield* rig.start([ticks])
      yield* rig.append("a1")
      yield* rig.append("b1", { integration: beta })
      yield* hourly(rig, first)
      yield* rig.append("a2")
      yield* rig.append("b2", { integration: beta })
      // the tick of the other integration is not settled, so its next one is deferred
      yield* TestClock.adjust("59 minutes")
      yield* TestClock.adjust("1 minute")
      yield* rig.until(() => received.length === 2)
      yield* first.stop
      const second = yield* rig.start([events])
      yield* rig.quiet(second.delivery)
      assert.deepStrictEqual(received, ["tick a1", "tick a2", "b2"])
    }))

  it.effect("a tick that waits does not stop a handler of batches (L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const first = yield* rig.start([Plugin.make("p").every("1 hour", { as: "x" }, () => failing)])
      yield* TestClock.adjust("1 hour")
      yield* rig.until(() => rig.deliveries.backlog, (all) => all.some(({ later }) => later === 1))
      yield* first.stop
      const batches = Plugin.make("p").batch(
        trigger,
        { as: "x", size: 2, within: "1 minute" },
        (events) => note(events.map(({ recordId }) => recordId).join(" "))
      )
      yield* rig.start([batches])
      yield* rig.append("a1")
      yield* rig.append("a2")
      yield* TestClock.adjust("1 hour")
      yield* rig.until(() => received.length === 1)
      assert.deepStrictEqual(received, ["a1 a2"])
    }))
})

describe("a plugin that the configuration turns off in an integration", () => {
  const on = Plugin.make("p").on(trigger, {}, () => failing)

  it.effect("its deliveries there wait until it is on there again", () =>
    Effect.gen(function*() {
      for (
        const off of [{ integrations: { [acme]: false } }, { others: false, integrations: { "lever:beta": true } }]
      ) {
        const rig = yield* make
        const { received, note } = recorder()
        const plugin = Plugin.make("p").on(
          trigger,
          {},
          ({ integration, recordId }) => note(`${integration} ${recordId}`)
        )
        const first = yield* rig.start([on])
        yield* rig.append("a1")
        yield* rig.append("b1", { integration: "lever:beta" })
        const waiting = (all: ReadonlyArray<{ readonly later: number }>) =>
          all.reduce((sum, { later }) => sum + later, 0)
        yield* rig.until(() => rig.deliveries.backlog, (all) => waiting(all) === 2)
        yield* first.stop
        const second = yield* rig.start([plugin.with(off)])
        yield* TestClock.adjust("1 hour")
        yield* rig.until(() => received.length > 0)
        yield* rig.quiet(second.delivery)
        assert.deepStrictEqual(received, ["lever:beta b1"])
        yield* second.stop
        yield* rig.start([plugin])
        yield* rig.empty
        assert.deepStrictEqual(received, ["lever:beta b1", "greenhouse:acme a1"])
      }
    }))

  it.effect("the log is not kept for a tick that waits there (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const ticking = Plugin.make("p").with({ others: false, integrations: { [acme]: true } })
        .every("1 hour", { as: "x" }, () => failing)
      const first = yield* rig.start([ticking])
      yield* rig.append("a1")
      yield* TestClock.adjust("1 hour")
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === 1)
      yield* first.stop
      yield* rig.append("a2")
      assert.strictEqual(yield* rig.store.readerPosition(deliveryReader), 0)
      yield* rig.start([ticking.with({ integrations: { [acme]: false } })])
      yield* rig.until(() => rig.store.readerPosition(deliveryReader), (position) => position === 2)
    }))
})
