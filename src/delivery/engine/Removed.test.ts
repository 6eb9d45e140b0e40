/** Deliveries of integrations that are no longer configured. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { pass } from "../../../test/support/delivery/Limiting.ts"
import { acme, make } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"
const link = { label: "Result", url: "https://x.example" }
const beta = "lever:beta"

/** A plugin that writes to another integration than that of the event. */
const crossing = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
  trigger,
  {},
  ({ recordId }) =>
    Effect.gen(function*() {
      const api = yield* Plugin.Api.for(beta)
      yield* api.addResultLink(recordId, link)
    })
)

/** An event of `acme` that was not delivered before `acme` was removed. */
const undelivered = Effect.gen(function*() {
  const rig = yield* make
  const first = yield* rig.start([crossing])
  yield* first.stop
  yield* rig.append("a1")
  yield* rig.setState(acme, "removed")
  return rig
})

describe("a delivery of a removed integration", () => {
  it.effect("a delivery of a removed integration waits, is shown, and runs within a minute when it returns", () =>
    Effect.gen(function*() {
      const rig = yield* undelivered
      const { delivery, plugins } = yield* rig.start([crossing])
      yield* rig.quiet(delivery)
      yield* TestClock.adjust("1 hour")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(rig.sent, [])
      const { plugins: [view] } = yield* plugins.view
      assert.deepStrictEqual(view?.integrations.filter(({ state }) => state === "removed"), [
        { integration: acme, state: "removed", reason: "1 delivery is waiting until the integration is added again" }
      ])
      yield* rig.setState(acme, "active")
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(rig.sent.map(({ integration }) => integration), [beta])
      const { plugins: [after] } = yield* plugins.view
      assert.deepStrictEqual(after?.integrations.filter(({ state }) => state === "removed"), [])
    }))

  it.effect("a delivery waits for a process that knows the account of its integration (X16)", () =>
    Effect.gen(function*() {
      const rig = yield* undelivered
      yield* rig.setState(acme, "active")
      rig.accounts = new Set(["other"])
      const older = yield* rig.start([crossing])
      yield* rig.quiet(older.delivery)
      yield* TestClock.adjust("1 hour")
      yield* rig.quiet(older.delivery)
      assert.deepStrictEqual(rig.sent, [])
      yield* older.stop
      rig.accounts = new Set(["other", "default"])
      yield* rig.start([crossing])
      yield* rig.empty
      assert.deepStrictEqual(rig.sent.map(({ integration }) => integration), [beta])
    }))

  it.effect("a claimed delivery that has not started is released when its integration is removed", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const started: Array<string> = []
      const first = yield* Deferred.make<void>()
      const plugin = Plugin.make("p").on(
        trigger,
        { concurrency: 1 },
        ({ recordId }) =>
          Effect.andThen(
            Effect.sync(() => void started.push(recordId)),
            recordId === "a1" ? Deferred.await(first) : Effect.void
          )
      )
      yield* rig.start([plugin])
      for (const id of ["a1", "a2", "a3"]) yield* rig.append(id)
      const running = Effect.map(
        rig.deliveries.backlog,
        (backlog) => backlog.reduce((sum, { running }) => sum + running, 0)
      )
      yield* rig.until(() => running, (count) => count === 3)
      yield* rig.until(() => started.length === 1)
      yield* rig.setState(acme, "removed")
      // an unrelated event wakes the engine
      yield* rig.append("b1", { integration: beta, model: "ats.tag" })
      yield* rig.until(() => running, (count) => count === 1)
      yield* Deferred.succeed(first, undefined)
      yield* rig.until(() => running, (count) => count === 0)
      assert.deepStrictEqual(started, ["a1"])
      assert.deepStrictEqual(yield* rig.deliveries.deadLetters({ limit: 10 }), [])
      yield* rig.setState(acme, "active")
      yield* pass(120, 30)
      yield* rig.empty
      assert.deepStrictEqual(started, ["a1", "a2", "a3"])
    }))

  it.effect("a delivery waits if its integration is removed during the attempt, before its write", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const first = yield* Deferred.make<void>()
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
        trigger,
        {},
        ({ recordId }) =>
          Effect.gen(function*() {
            yield* Deferred.await(first)
            const api = yield* Plugin.Api
            yield* api.addResultLink(recordId, link)
          })
      )
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1)
      yield* rig.setState(acme, "removed")
      yield* Deferred.succeed(first, undefined)
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 0)
      assert.deepStrictEqual(yield* rig.deliveries.deadLetters({ limit: 10 }), [])
      yield* rig.setState(acme, "active")
      yield* pass(120, 30)
      yield* rig.empty
      assert.strictEqual(rig.sent.length, 1)
    }))

  it.effect("deliveries and ticks of an erased integration are dropped without running", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let runs = 0
      const ticking = Plugin.make("p")
        .on(trigger, {}, () => Effect.sync(() => void runs++))
        .every("1 hour", { as: "tick" }, () => Effect.sync(() => void runs++))
      const first = yield* rig.start([ticking])
      yield* rig.quiet(first.delivery)
      yield* first.stop
      const handlers = yield* rig.deliveries.handlers
      const tick = handlers.find(({ handler }) => handler === "tick")
      const event = handlers.find(({ handler }) => handler !== "tick")
      if (event === undefined || tick === undefined) return assert.fail("no handlers")
      const made = { integration: acme, dueAt: 0, dead: null, fresh: null }
      const position = yield* rig.append("a1")
      yield* rig.deliveries.replay([
        { ...made, handler: event.key, orderingKey: "a", subject: { _tag: "Event", position } },
        { ...made, handler: tick.key, orderingKey: "t", subject: { _tag: "Tick", scheduledAt: 0, from: 0, to: 1 } }
      ], { at: 0, command: "test", target: "", detail: "" })
      yield* rig.setState(acme, "erased")
      yield* rig.start([ticking])
      yield* rig.empty
      assert.strictEqual(runs, 0)
    }))

  it.effect("no delivery is attempted before the store has the integrations of the configuration", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const first = yield* rig.start([crossing])
      yield* first.stop
      yield* rig.append("a1")
      const { configured, delivery } = yield* rig.startUnconfigured([crossing])
      for (let turn = 0; turn < 30; turn++) yield* Effect.yieldNow
      assert.strictEqual((yield* delivery.status).state, "running")
      assert.deepStrictEqual(rig.sent, [])
      yield* rig.setState(acme, "removed")
      yield* configured
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(rig.sent, [])
    }))
})

describe("a write to an integration", () => {
  for (const id of [beta, "unknown:here"]) {
    it.effect(`a write to ${id}, which is not configured, is a dead letter that names it and the remedy`, () =>
      Effect.gen(function*() {
        const rig = yield* make
        const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
          trigger,
          {},
          ({ recordId }) =>
            Effect.gen(function*() {
              const api = yield* Plugin.Api.for(id)
              yield* api.addResultLink(recordId, link)
            })
        )
        yield* rig.start([plugin])
        yield* rig.setState(beta, "removed")
        yield* rig.append("a1")
        yield* rig.dead(1)
        const [letter] = yield* rig.deliveries.deadLetters({ limit: 1 })
        assert.deepInclude(letter?.failure, { reason: "Permanent", refusal: "Inactive" })
        assert.include(letter?.failure.message, `the integration ${id} is not configured`)
        assert.deepStrictEqual(rig.sent, [])
      }))
  }
})
