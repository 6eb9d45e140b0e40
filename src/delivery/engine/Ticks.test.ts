/** The spans of ticks while integrations are added and removed: every event of the log is in exactly one span. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Statement from "effect/sql/Statement"
import * as TestClock from "effect/testing/TestClock"
import { acme, make, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const day = 86_400_000
const added = "bamboohr:new"

interface Run {
  readonly integration: string
  readonly day: number
  readonly hired: ReadonlyArray<string>
}

/** A handler that runs daily in the integrations that `settings` switch on, and records its ticks. */
const daily = (rig: Rig, settings: Plugin.Settings) => {
  const runs: Array<Run> = []
  const plugin = Plugin.make("digest").with(settings).every(
    "1 day",
    { as: "daily" },
    ({ from, integration, scheduledAt, to }) =>
      Effect.gen(function*() {
        const hired = yield* Plugin.Events.between("ats.application.hired", from, to)
        runs.push({ integration, day: scheduledAt.getTime() / day, hired: hired.map(({ recordId }) => recordId) })
      })
  )
  return { plugin, runs, until: (count: number) => rig.until(() => runs.length === count) }
}
const only = (...ids: ReadonlyArray<string>): Plugin.Settings => ({
  others: false,
  integrations: Object.fromEntries(ids.map((id) => [id, true]))
})
const restarted = Effect.fnUntraced(
  function*(rig: Rig, process: { readonly stop: Effect.Effect<void> }, plugin: Plugin.Plugin<unknown>) {
    yield* process.stop
    return yield* rig.start([plugin])
  }
)

describe("a tick", () => {
  it.effect("a tick spans the days on which its integration was not configured (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, runs, until } = daily(rig, only(acme, "lever:beta"))
      const first = yield* rig.start([plugin])
      yield* TestClock.adjust("1 day")
      yield* until(2)
      yield* rig.hire("a1")
      yield* rig.integration(acme, "removed")
      const second = yield* restarted(rig, first, plugin)
      yield* TestClock.adjust("1 day")
      yield* rig.integration(acme, "active")
      yield* restarted(rig, second, plugin)
      yield* rig.hire("a2")
      yield* TestClock.adjust("1 day")
      yield* rig.until(() => runs.filter(({ day }) => day === 3).length === 2)
      yield* rig.empty
      assert.deepStrictEqual(runs.flatMap(({ hired }) => hired), ["a1", "a2"])
    }))

  it.effect("a tick that was missed while its integration was removed comes within a minute of its return (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, runs, until } = daily(rig, only(acme, "lever:beta"))
      yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* TestClock.adjust("12 hours")
      yield* rig.integration(acme, "removed")
      yield* TestClock.adjust("1 day")
      yield* until(1)
      yield* rig.integration(acme, "active")
      yield* TestClock.adjust("1 minute")
      yield* until(2)
      yield* TestClock.adjust("1 day")
      yield* until(4)
      assert.deepStrictEqual(runs.filter(({ integration }) => integration === acme), [
        { integration: acme, day: 1, hired: ["a1"] },
        { integration: acme, day: 2, hired: [] }
      ])
    }))

  it.effect("the first tick of an integration spans the events since its handler was registered (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      yield* rig.hire("b1", "lever:beta")
      const { plugin, runs, until } = daily(rig, only(added))
      yield* rig.start([plugin])
      yield* TestClock.adjust("1 hour")
      yield* rig.integration(added, "active")
      yield* rig.hire("a1", added)
      yield* TestClock.adjust("23 hours")
      yield* until(1)
      yield* rig.hire("a2", added)
      yield* TestClock.adjust("1 day")
      yield* until(2)
      assert.deepStrictEqual(runs, [
        { integration: added, day: 1, hired: ["a1"] },
        { integration: added, day: 2, hired: ["a2"] }
      ])
    }))

  it.effect("the first tick of an integration spans events from before a restart (L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, runs, until } = daily(rig, only(added))
      const first = yield* rig.start([plugin])
      yield* rig.integration(added, "active")
      yield* rig.hire("a1", added)
      yield* first.stop
      yield* TestClock.adjust("30 hours")
      yield* rig.start([plugin])
      yield* TestClock.adjust("18 hours")
      yield* until(1)
      assert.deepStrictEqual(runs, [{ integration: added, day: 2, hired: ["a1"] }])
    }))

  it.effect("the first tick of a new integration is due at the next multiple of the interval, not at once", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, runs, until } = daily(rig, only(acme, added))
      const fed = Plugin.make("fed").on("ats.application.hired", {}, () => Effect.void)
      const { delivery } = yield* rig.start([plugin, fed])
      yield* TestClock.adjust("36 hours")
      yield* until(1)
      yield* rig.hire("a1")
      yield* rig.quiet(delivery)
      yield* rig.integration(added, "active")
      yield* rig.hire("n1", added)
      yield* rig.quiet(delivery)
      yield* rig.empty
      assert.strictEqual(runs.length, 1)
      yield* TestClock.adjust("12 hours")
      yield* until(3)
      assert.deepStrictEqual(runs.slice(1).map(({ day, hired }) => [day, hired]).toSorted(), [[2, ["a1"]], [2, ["n1"]]])
    }))

  it.effect("a tick does not span the time in which the plugin was off in an integration that was added between two ticks", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const fed = Plugin.make("fed").on("ats.application.hired", {}, () => Effect.void)
      const { delivery, stop } = yield* rig.start([daily(rig, only(acme)).plugin, fed])
      yield* rig.quiet(delivery)
      yield* TestClock.adjust("1 hour")
      yield* rig.integration(added, "active")
      yield* rig.hire("n1", added)
      yield* rig.quiet(delivery)
      yield* stop
      const { plugin, runs, until } = daily(rig, only(acme, added))
      yield* rig.start([plugin, fed])
      yield* rig.hire("n2", added)
      for (const runs of [2, 4]) yield* Effect.andThen(TestClock.adjust("1 day"), until(runs))
      assert.deepStrictEqual(runs.flatMap(({ hired }) => hired), ["n2"])
    }))

  it.effect("all integrations are read when a tick is due, and not at each step", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let whole = 0
      const { plugin, until } = daily(rig, only(acme))
      const fed = Plugin.make("fed").on("ats.application.hired", {}, () => Effect.void)
      const { delivery } = yield* rig.start([plugin, fed]).pipe(
        Effect.provideService(Statement.CurrentTransformer, (statement) => {
          const [query] = statement.compile()
          if (query.includes("FROM integrations") && !query.includes("WHERE")) whole++
          return Effect.succeed(statement)
        })
      )
      yield* rig.hire("a1")
      yield* rig.quiet(delivery)
      const atStart = whole
      assert.isAbove(atStart, 0)
      for (const id of ["a2", "a3", "a4"]) yield* Effect.andThen(rig.hire(id), rig.quiet(delivery))
      assert.strictEqual(whole, atStart)
      yield* TestClock.adjust("1 day")
      yield* until(1)
      assert.strictEqual(whole, atStart + 1)
    }))

  it.effect("a tick that becomes due while the engine is busy is not left for the next time that the engine has work", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let delay: Effect.Effect<void> = Effect.void
      yield* TestClock.setTime(day - 5)
      const { plugin, until } = daily(rig, only(acme))
      const fed = Plugin.make("fed").on("ats.application.hired", {}, () => Effect.void)
      const { delivery } = yield* rig.start([plugin, fed]).pipe(
        Effect.provideService(Statement.CurrentTransformer, (statement) => {
          const [query] = statement.compile()
          // read by each round, after it has looked for ticks
          const isBusy = query.includes("FROM integrations") && query.includes("WHERE")
          return Effect.as(isBusy ? Effect.suspend(() => delay) : Effect.void, statement)
        })
      )
      yield* rig.quiet(delivery)
      delay = Effect.suspend(() => {
        delay = Effect.void
        return TestClock.adjust(10)
      })
      yield* rig.append("t1", { model: "ats.tag" })
      yield* rig.quiet(delivery)
      yield* until(1)
    }))

  it.effect("a tick does not span the time in which the plugin was off in the configuration", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const off = daily(rig, only(acme))
      const first = yield* rig.start([off.plugin])
      yield* rig.hire("b1", "lever:beta")
      yield* TestClock.adjust("1 day")
      yield* off.until(1)
      const on = daily(rig, only(acme, "lever:beta"))
      const second = yield* restarted(rig, first, on.plugin)
      yield* rig.hire("b2", "lever:beta")
      yield* TestClock.adjust("1 day")
      yield* on.until(2)
      const third = yield* restarted(rig, second, off.plugin)
      yield* rig.hire("b3", "lever:beta")
      yield* TestClock.adjust("1 hour")
      const again = daily(rig, only(acme, "lever:beta"))
      yield* restarted(rig, third, again.plugin)
      yield* rig.hire("b4", "lever:beta")
      yield* TestClock.adjust("1 day")
      yield* again.until(2)
      const hired = [...on.runs, ...again.runs].flatMap(({ hired, integration }) => integration === acme ? [] : hired)
      assert.deepStrictEqual(hired, ["b2", "b4"])
    }))

  it.effect("a clock that was far ahead and is corrected stops no ticks, and no step of an earlier tick counts for a later one (W4, L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const posted: Array<ReadonlyArray<string>> = []
      const plugin = Plugin.make("digest").with(only(acme)).every(
        "1 day",
        { as: "daily" },
        ({ from, to }) =>
          Effect.gen(function*() {
            const hired = yield* Plugin.Events.between("ats.application.hired", from, to)
            const post = Effect.sync(() => void posted.push(hired.map(({ recordId }) => recordId)))
            yield* Plugin.Journal.once("post", Schema.Void, post)
          })
      )
      const hiredBefore = Effect.fnUntraced(function*(id: string, at: number) {
        yield* rig.hire(id)
        yield* TestClock.setTime(at * day)
        const process = yield* rig.start([plugin])
        yield* rig.until(() => posted.some((ids) => ids.includes(id)))
        yield* rig.empty
        yield* process.stop
      })
      yield* TestClock.setTime(9.5 * day)
      yield* (yield* rig.start([plugin])).stop
      yield* hiredBefore("a1", 10.5)
      yield* hiredBefore("a2", 13.5)
      // the clock was three days ahead
      for (const [id, at] of [["a3", 10.6], ["a4", 11.6], ["a5", 12.6], ["a6", 13.6]] as const) {
        yield* hiredBefore(id, at)
      }
      assert.deepStrictEqual(posted, [["a1"], ["a2"], ["a3"], ["a4"], ["a5"], ["a6"]])
    }))

  it.effect("the first tick of a plugin that starts with the oldest event spans all kept events", () =>
    Effect.gen(function*() {
      const rig = yield* make
      yield* rig.hire("a1")
      const { plugin, runs, until } = daily(rig, { ...only(acme), from: "oldest" })
      yield* rig.start([plugin])
      yield* TestClock.adjust("1 day")
      yield* until(1)
      assert.deepStrictEqual(runs[0]?.hired, ["a1"])
    }))
})
