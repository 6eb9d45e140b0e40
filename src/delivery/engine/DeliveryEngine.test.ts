import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import { action, make, recorder, unavailable } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"
const updated = "ats.application.updated"
const failing = new Plugin.Transient({ message: "not yet" })
const permanent = (detail: string) => new Plugin.Permanent({ message: detail })

describe("the events of a handler", () => {
  it.effect("a new plugin starts now or at the oldest event, as configured; a known one continues at its position", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const fromNow = Plugin.make("now").on(trigger, {}, ({ recordId }) => note(`now ${recordId}`))
      const fromOldest = Plugin.make("oldest").with({ from: "oldest" })
        .on(trigger, {}, ({ recordId }) => note(`oldest ${recordId}`))
      yield* rig.append("a1")
      const first = yield* rig.start([fromNow])
      yield* rig.append("a2")
      yield* rig.quiet(first.delivery)
      yield* first.stop
      yield* rig.append("a3")
      const second = yield* rig.start([fromNow, fromOldest])
      yield* rig.quiet(second.delivery)
      assert.deepStrictEqual(received.toSorted(), ["now a2", "now a3", "oldest a1", "oldest a2", "oldest a3"])
    }))
})

describe("an attempt that fails", () => {
  it.effect("a failed attempt is retried after a wait, during which only its record waits (L4, I5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      let fails = 2
      const plugin = Plugin.make("p").on(
        updated,
        {},
        ({ recordId, version }) =>
          Effect.andThen(
            note(`${recordId} ${version}`),
            Effect.suspend(() => recordId === "a1" && fails-- > 0 ? failing : Effect.void)
          )
      )
      const { delivery } = yield* rig.start([plugin])
      for (const id of ["a1", "a1", "a1", "a2", "a2"]) yield* rig.append(id)
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["a1 2", "a2 2"])
      const counted = (yield* rig.deliveries.backlog).map(({ due, later, waiting }) => ({ due, later, waiting }))
      assert.deepStrictEqual(counted, [{ due: 0, later: 1, waiting: 1 }])
      yield* TestClock.adjust("1 second")
      yield* rig.until(() => received.length === 3)
      assert.deepStrictEqual(received.slice(2), ["a1 2"])
      yield* TestClock.adjust("2 seconds")
      yield* rig.empty
      assert.deepStrictEqual(received.slice(3), ["a1 2", "a1 3"])
    }))

  it.effect("a delivery is dead after its attempts, and parks later events of its record until a discard (L4)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const plugin = Plugin.make("p").on(
        updated,
        { attempts: 2 },
        ({ recordId, version }) =>
          Effect.andThen(note(`${recordId} ${version}`), version === 2 && recordId === "a1" ? failing : Effect.void)
      )
      const { delivery } = yield* rig.start([plugin])
      for (const id of ["a1", "a1", "a1", "a2", "a2"]) yield* rig.append(id)
      yield* rig.quiet(delivery)
      yield* TestClock.adjust("1 second")
      yield* rig.dead(1)
      yield* rig.append("a1")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received.toSorted(), ["a1 2", "a1 2", "a2 2"])
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 10 })
      assert.deepStrictEqual([letter?.parked, letter?.attempts, letter?.failure.reason], [2, 2, "Transient"])
      const detail = yield* rig.deliveries.deadLetterDetail(letter?.id ?? 0)
      assert.deepStrictEqual(detail?.failedAttempts.map(({ failure, number }) => [number, failure.message]), [
        [1, "not yet"],
        [2, "not yet"]
      ])
      yield* rig.deliveries.discard([letter?.id ?? 0], action)
      yield* rig.empty
      assert.deepStrictEqual(received.slice(3), ["a1 3", "a1 4"])
    }))

  it.effect("a dead letter with `skip` parks no later event, and is delivered late when redriven", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      let broken = true
      const plugin = Plugin.make("p").on(updated, { onDeadLetter: "skip" }, ({ version }) =>
        Effect.andThen(
          note(`${version}`),
          Effect.suspend(() => version === 2 && broken ? permanent("no") : Effect.void)
        ))
      const { delivery } = yield* rig.start([plugin])
      for (const id of ["a1", "a1", "a1"]) yield* rig.append(id)
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["2", "3"])
      broken = false
      yield* rig.redrive
      yield* rig.empty
      assert.deepStrictEqual(received, ["2", "3", "2"])
    }))

  it.effect("a rate limit uses up no attempt and waits as long as it says, but at least a second", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const times: Array<number> = []
      const plugin = Plugin.make("p").on(
        trigger,
        { attempts: 1 },
        Effect.fnUntraced(function*() {
          times.push(yield* Clock.currentTimeMillis)
          const retryAfter = [0, -60_000, 60_000][times.length - 1]
          if (retryAfter !== undefined) {
            return yield* new Plugin.RateLimited({ retryAfter: Duration.millis(retryAfter) })
          }
        })
      )
      const { delivery } = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(times, [0])
      for (const expected of [2, 3]) {
        yield* TestClock.adjust("1 second")
        yield* rig.until(() => times.length === expected)
      }
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.later === 1)
      yield* TestClock.adjust("60 seconds")
      yield* rig.empty
      assert.deepStrictEqual(times, [0, 1_000, 2_000, 62_000])
    }))

  it.effect("a permanent failure is a dead letter at once; a defect and a time-out are failed attempts", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const plugin = Plugin.make("p")
        .on(trigger, { as: "permanent" }, () => permanent("no such employee"))
        .on(trigger, { as: "defect", attempts: 2 }, () => Effect.die(new TypeError("x.map is not a function")))
        .on(trigger, { as: "thrown", attempts: 1 }, () => {
          throw new Error("Jane Doe")
        })
        .on(trigger, { as: "slow", attempts: 1, timeout: "2 seconds" }, () => Effect.never)
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.dead(2)
      yield* TestClock.adjust("2 seconds")
      yield* rig.dead(4)
      const letters = yield* rig.deliveries.deadLetters({ limit: 10 })
      const by = Object.fromEntries(letters.map(({ failure, handler }) => [handler, failure]))
      assert.deepStrictEqual(
        Object.entries(by).map(([handler, { reason }]) => [handler, reason]).toSorted(),
        [["defect", "Defect"], ["permanent", "Permanent"], ["slow", "TimedOut"], ["thrown", "Defect"]]
      )
      assert.include(by["defect"]?.message, "TypeError: x.map is not a function")
      assert.notInclude(by["thrown"]?.message, "Jane")
    }))

  it.effect("failures of many records in a row open the circuit of that handler only, until a probe succeeds", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      let broken = true
      const plugin = Plugin.make("p")
        .on(
          trigger,
          { as: "broken", concurrency: 1 },
          ({ recordId }) => Effect.andThen(note(recordId), Effect.suspend(() => broken ? failing : Effect.void))
        )
        .on(trigger, { as: "well" }, () => Effect.void)
      const { delivery } = yield* rig.start([plugin])
      for (let index = 0; index < 30; index++) yield* rig.append(`a${index}`)
      yield* rig.quiet(delivery)
      assert.strictEqual(received.length, 10)
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 0)
      const handlers = yield* rig.deliveries.handlers
      assert.deepStrictEqual(
        handlers.map(({ circuit, handler }) => [handler, circuit.openUntil, circuit.failed.length]).toSorted(),
        [["broken", 30_000, 10], ["well", null, 0]]
      )
      assert.deepStrictEqual((yield* rig.deliveries.backlog).map(({ handler }) => handler), ["broken"])
      yield* TestClock.adjust("29 seconds")
      assert.strictEqual(received.length, 10)
      yield* TestClock.adjust("1 second")
      yield* rig.until(() => received.length === 11)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(received.length, 11)
      broken = false
      yield* TestClock.adjust("1 second")
      yield* rig.empty
      assert.strictEqual(new Set(received).size, 30)
    }))
})

describe("running attempts", () => {
  it.effect("a handler runs at most as many attempts at once as its concurrency, and one per record", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let maxRunning = 0
      let now = 0
      const records = new Set<string>()
      const plugin = Plugin.make("p").on(updated, { concurrency: 3 }, ({ recordId }) =>
        Effect.gen(function*() {
          assert.isFalse(records.has(recordId))
          records.add(recordId)
          maxRunning = Math.max(maxRunning, ++now)
          yield* Effect.sleep("1 second")
          now--
          records.delete(recordId)
        }))
      yield* rig.start([plugin])
      for (let index = 0; index < 24; index++) yield* rig.append(`a${index % 8}`)
      yield* TestClock.adjust("30 seconds")
      yield* rig.empty
      assert.strictEqual(maxRunning, 3)
    }))

  it.effect("a running attempt gets the rest of its time-out on shutdown; the next process delivers the rest", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const started = yield* Deferred.make<void>()
      const plugin = Plugin.make("p").on(
        trigger,
        { concurrency: 1 },
        ({ recordId }) =>
          Effect.andThen(Deferred.succeed(started, undefined), Effect.delay(note(recordId), "10 seconds"))
      )
      const first = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.append("a2")
      yield* Deferred.await(started)
      const stopping = yield* Effect.forkChild(first.stop)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(received, ["a1"])
      assert.deepStrictEqual((yield* rig.deliveries.backlog).map(({ due }) => due), [1])
      yield* rig.start([plugin])
      yield* TestClock.adjust("10 seconds")
      yield* rig.empty
      assert.deepStrictEqual(received, ["a1", "a2"])
    }))

  it.effect("a delivery that was being claimed when the process began to stop is released and not started", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const plugin = Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))
      const first = yield* rig.start([plugin])
      const claimed = yield* Deferred.make<void>()
      let claims = 0
      rig.beforeClaim = () => Effect.andThen(Effect.sync(() => claims++), Deferred.await(claimed))
      yield* rig.append("a1")
      yield* rig.until(() => claims > 0)
      const stopping = yield* Effect.forkChild(first.stop, { startImmediately: true })
      yield* Deferred.succeed(claimed, undefined)
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(received, [])
      assert.deepStrictEqual((yield* rig.deliveries.backlog).map(({ due }) => due), [1])
    }))

  it.effect("attempts that fail while the process stops do not log again that the circuit has opened", () => {
    const logged: Array<string> = []
    const opened = () => logged.filter((line) => line.startsWith("handler circuit opened"))
    return Effect.gen(function*() {
      const rig = yield* make
      const ends = new Map<string, Deferred.Deferred<void>>()
      const plugin = Plugin.make("p").on(
        trigger,
        { concurrency: 12 },
        ({ recordId }) =>
          Effect.suspend(() => {
            const end = Deferred.makeUnsafe<void>()
            ends.set(recordId, end)
            return Effect.andThen(Deferred.await(end), failing)
          })
      )
      const { stop } = yield* rig.start([plugin])
      for (let index = 0; index < 12; index++) yield* rig.append(`a${index}`)
      yield* rig.until(() => ends.size === 12)
      const [first, second, ...others] = [...ends.values()]
      for (const end of others) yield* Deferred.succeed(end, undefined)
      yield* rig.until(() => opened().length > 0)
      let settled = 0
      rig.beforeClaim = () => Effect.sync(() => void settled++)
      const stopping = yield* Effect.forkChild(stop)
      yield* rig.until(() => settled > 0)
      yield* Deferred.succeed(first!, undefined)
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1)
      yield* Deferred.succeed(second!, undefined)
      yield* Fiber.join(stopping)
      assert.lengthOf(opened(), 1)
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])))
  })

  it.effect("a write is not cut off, and its delivery is settled, if the store is unavailable when the process stops (X10, L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const answer = yield* Deferred.make<unknown>()
      rig.script.answer = () => Deferred.await(answer)
      const writing = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
        trigger,
        {},
        ({ recordId }) =>
          Effect.flatMap(
            Plugin.Api,
            (api) => api.addResultLink(recordId, { label: "Result", url: "https://x.example" })
          )
      )
      const first = yield* rig.start([writing])
      yield* rig.append("a1")
      yield* rig.until(() => rig.sent.length === 1)
      let refusals = 0
      rig.beforeClaim = () => Effect.suspend(() => ++refusals <= 3 ? Effect.fail(unavailable) : Effect.void)
      const stopping = yield* Effect.forkChild(first.stop)
      yield* rig.until(() => refusals > 0)
      yield* TestClock.adjust("10 seconds")
      yield* Deferred.succeed(answer, {})
      yield* Fiber.join(stopping)
      assert.deepStrictEqual([...rig.intents], [])
      assert.deepStrictEqual(yield* rig.deliveries.backlog, [])
    }))

  it.effect("a process stops although the store stays unavailable, once no attempt is running (X10)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const end = yield* Deferred.make<void>()
      const { note, received } = recorder()
      const slow = Plugin.make("p").on(
        trigger,
        {},
        ({ recordId }) => Effect.andThen(note(recordId), Deferred.await(end))
      )
      const first = yield* rig.start([slow])
      yield* rig.append("a1")
      yield* rig.until(() => received.length === 1)
      let refusals = 0
      rig.beforeClaim = () => Effect.andThen(Effect.sync(() => refusals++), Effect.fail(unavailable))
      const stopping = yield* Effect.forkChild(first.stop)
      yield* rig.until(() => refusals > 0)
      yield* Deferred.succeed(end, undefined)
      yield* TestClock.adjust("2 seconds")
      yield* rig.until(() => stopping.pollUnsafe() !== undefined)
    }))

  it.effect("a frozen attempt is refused every request once another process delivers (X16)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const frozen = yield* Deferred.make<void>()
      const messages: Array<string> = []
      const writing = (wait: Effect.Effect<void>) =>
        Plugin.make("p", { needs: { writes: ["addTag"] } }).on(trigger, {}, ({ recordId }) =>
          Effect.gen(function*() {
            yield* wait
            const api = yield* Plugin.Api
            yield* api.addTag(recordId, { tag: { name: "met" } })
          }).pipe(Effect.tapError((error) => Effect.sync(() => messages.push(error.message)))))
      const first = yield* rig.start([writing(Deferred.await(frozen))])
      yield* rig.append("a1")
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1)
      yield* rig.start([writing(Effect.void)])
      yield* rig.empty
      assert.strictEqual(rig.sent.length, 1)
      yield* Deferred.succeed(frozen, undefined)
      yield* rig.until(() => first.delivery.status, ({ state }) => state === "stopped")
      assert.strictEqual(rig.sent.length, 1)
      assert.deepStrictEqual(messages, [
        "this attempt is over: another process or a later attempt has claimed the delivery"
      ])
    }))

  it.effect("a defect stops the deliveries, which the status and the log show with its kind and place (I11)", () => {
    const logged: Array<string> = []
    return Effect.gen(function*() {
      const rig = yield* make
      rig.beforeClaim = () => Effect.die(new TypeError("no handler for jane@example.com"))
      const { delivery } = yield* rig.start([Plugin.make("p").on(trigger, {}, () => Effect.void)])
      yield* rig.until(() => delivery.status, ({ state }) => state === "stopped")
      const { reason } = yield* delivery.status
      assert.match(reason?.message ?? "", /^an unexpected error: TypeError at DeliveryEngine\.test\.ts:\d+:\d+$/)
      assert.lengthOf(logged.filter((line) => line.startsWith("delivery stopped: an unexpected error")), 1)
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])))
  })
})
