import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { acme, make, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"
const failing = new Plugin.Transient({ message: "not yet" })
const refused = new Plugin.Permanent({ message: "no" })
const idsOf = (events: ReadonlyArray<{ readonly recordId: string }>) => events.map(({ recordId }) => recordId).join(" ")

describe("a batch", () => {
  it.effect("a batch holds events of one integration and is delivered when full or after its window", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const received: Array<string> = []
      const plugin = Plugin.make("p").batch(
        trigger,
        { size: 3, within: "1 minute" },
        (events) => Effect.sync(() => received.push(idsOf(events)))
      )
      const { delivery } = yield* rig.start([plugin])
      for (const id of ["a1", "a2", "a3", "a4"]) yield* rig.append(id)
      yield* rig.append("b1", { integration: "lever:beta" })
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["a1 a2 a3"])
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["a1 a2 a3", "a4", "b1"])
    }))

  it.effect("an interrupted batch has the same members in the next process, even after new events (L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const received: Array<string> = []
      const plugin = (ending: Effect.Effect<void>) =>
        Plugin.make("p").batch(
          trigger,
          { size: 3, within: "1 minute" },
          (events) => Effect.andThen(Effect.sync(() => received.push(idsOf(events))), ending)
        )
      const first = yield* rig.start([plugin(Effect.never)])
      yield* rig.append("a1")
      yield* rig.append("a2")
      yield* rig.quiet(first.delivery)
      yield* TestClock.adjust("1 minute")
      yield* rig.until(() => received.length === 1)
      for (const id of ["a3", "a4", "a5"]) yield* rig.append(id)
      yield* rig.until(() => received.length === 2)
      yield* rig.start([plugin(Effect.void)])
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["a1 a2", "a1 a2", "a3 a4 a5", "a3 a4 a5"])
    }))

  it.effect("a batch with a poison event is halved, and only that event becomes a dead letter (L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const done: Array<string> = []
      const tried: Array<string> = []
      const plugin = Plugin.make("p").batch(
        trigger,
        { size: 8, within: "1 minute", attempts: 2 },
        (events) =>
          Effect.suspend((): Effect.Effect<void, Plugin.HandlerError> => {
            tried.push(idsOf(events))
            if (
              events.some(({ recordId }) => recordId === "a5")
            ) return refused
            if (events.some(({ recordId }) => recordId === "a2") && tried.length < 4) return failing
            done.push(...events.map(({ recordId }) => recordId))
            return Effect.void
          })
      )
      yield* rig.start([plugin])
      for (let index = 0; index < 8; index++) {
        yield* rig.append(`a${index}`)
      }
      yield* rig.dead(1)
      yield* TestClock.adjust("10 minutes")
      yield* rig.until(() => done.length === 7)
      const letters = yield* rig.deliveries.deadLetters({ limit: 10 })
      assert.deepStrictEqual(letters.map(({ event }) => event?.id), ["a5"])
      assert.deepStrictEqual(done.toSorted(), ["a0", "a1", "a2", "a3", "a4", "a6", "a7"])
      assert.strictEqual(tried[0], "a0 a1 a2 a3 a4 a5 a6 a7")
    }))
})

const day = 86_400_000

/** A handler that runs daily and records its ticks. */
const daily = (rig: Rig, ended: (count: number) => Effect.Effect<void, Plugin.HandlerError> = () => Effect.void) => {
  const ticks: Array<{ readonly integration: string; readonly at: number; readonly hired: ReadonlyArray<string> }> = []
  const plugin = Plugin.make("digest").with({ others: false, integrations: { [acme]: true } }).every(
    "1 day",
    { as: "daily", attempts: 2 },
    (tick) =>
      Effect.gen(function*() {
        const hired = yield* Plugin.Events.between("ats.application.hired", tick.from, tick.to)
        ticks.push({
          integration: tick.integration,
          at: tick.scheduledAt.getTime() / day,
          hired: hired.map(({ recordId }) => recordId)
        })
        yield* ended(ticks.length)
      })
  )
  return { plugin, ticks, until: (count: number) => rig.until(() => ticks.length === count) }
}

describe("a tick", () => {
  it.effect("after three days of downtime a single tick spans all of them (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, ticks, until } = daily(rig)
      const first = yield* rig.start([plugin])
      yield* TestClock.adjust("1 day")
      yield* until(1)
      yield* first.stop
      for (const id of ["a1", "a2", "a3"]) {
        yield* rig.hire(id)
        yield* TestClock.adjust("1 day")
      }
      yield* rig.start([plugin])
      yield* until(2)
      yield* rig.empty
      assert.deepStrictEqual(ticks.slice(1), [{ integration: acme, at: 4, hired: ["a1", "a2", "a3"] }])
    }))

  it.effect("a tick that became a dead letter keeps its span, and the next ticks continue", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, ticks, until } = daily(rig, (count) => count === 1 ? refused : Effect.void)
      yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* TestClock.adjust("1 day")
      yield* until(1)
      yield* rig.hire("a2")
      yield* TestClock.adjust("1 day")
      yield* until(2)
      yield* rig.redrive
      yield* rig.empty
      assert.deepStrictEqual(ticks.map(({ at, hired }) => [at, hired]), [[1, ["a1"]], [2, ["a2"]], [1, ["a1"]]])
    }))

  it.effect("the log is kept for the span of a pending tick", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, ticks, until } = daily(rig)
      const fed = Plugin.make("fed").on(trigger, {}, () => Effect.void)
      const { delivery } = yield* rig.start([plugin, fed])
      yield* rig.hire("a1")
      yield* rig.append("a1")
      yield* rig.append("a1")
      yield* rig.quiet(delivery)
      const position = yield* rig.store.readerPosition("delivery")
      yield* rig.store.prune({ before: 1, upTo: position - 1 })
      yield* TestClock.adjust("1 day")
      yield* until(1)
      assert.deepStrictEqual(ticks[0]?.hired, ["a1"])
    }))
})

describe("retention", () => {
  it.effect("pruning keeps the event and previous content of a delivery until it is settled", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let broken = true
      const seen: Array<unknown> = []
      const plugin = Plugin.make("p").on(
        "ats.application.updated",
        { onDeadLetter: "skip" },
        ({ after, before, version }) =>
          Effect.suspend(() => {
            if (version === 2 && broken) return refused
            seen.push([before, after])
            return Effect.void
          })
      )
      const first = yield* rig.start([plugin])
      for (let version = 1; version <= 5; version++) yield* rig.append("a1")
      yield* rig.quiet(first.delivery)
      yield* first.stop
      const prune = rig.store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 5 })
      yield* prune
      const kept = Effect.map(
        rig.deliveries.entries([1, 2, 3, 4, 5]),
        (entries) => entries.map((entry) => entry.position)
      )
      assert.deepStrictEqual(yield* kept, [1, 2, 5])
      broken = false
      yield* rig.redrive
      const second = yield* rig.start([plugin])
      yield* rig.empty
      yield* second.stop
      assert.deepStrictEqual(seen.at(-1), [{ id: "a1", version: 1 }, { id: "a1", version: 2 }])
      yield* prune
      assert.deepStrictEqual(yield* kept, [5])
    }))
})
