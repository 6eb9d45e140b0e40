import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as Fleet from "../../test/support/source/Fleet.ts"

const sentBy = (fleet: Fleet.Fleet, name: string, from = 0) =>
  fleet.sent.filter(({ at, by }) => by === name && at >= from)
const now = Effect.clockWith((clock) => clock.currentTimeMillis)

describe("the request budget that processes share", () => {
  it.effect("processes that always want more use the slots of the account, and never more", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(1)
      for (const name of ["a", "b", "c"]) yield* (yield* fleet.start(name, 8)).demand(12)
      yield* TestClock.adjust("1 minute")
      assert.isAtMost(fleet.mostInFlight(), 8)
      assert.isAtLeast(fleet.mostInFlight(), 7)
      for (const name of ["a", "b", "c"]) assert.isAtLeast(sentBy(fleet, name).length, 60)
      assert.isAtMost(fleet.claims(), 3 * 130)
    }))

  it.effect("a process alone uses all slots but one, which is for a process that starts", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(2)
      yield* (yield* fleet.start("a", 8)).demand(20)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(fleet.mostInFlight(), 7)
      const from = yield* now
      yield* (yield* fleet.start("b", 8)).demand(1)
      yield* TestClock.adjust("10 millis")
      assert.lengthOf(sentBy(fleet, "b", from), 1)
    }))

  it.effect("a process without demand returns its slots within three seconds, and then sends no statements", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(3)
      const first = yield* fleet.start("a", 4)
      yield* first.demand(8)
      yield* TestClock.adjust("10 seconds")
      yield* first.demand(0)
      yield* TestClock.adjust("8 seconds")
      const claims = fleet.claims()
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(fleet.claims(), claims)
      const from = yield* now
      yield* (yield* fleet.start("b", 4)).demand(8)
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(fleet.mostInFlight(from), 3)
    }))

  it.effect("every process shows the slots of all processes, also one without requests and those of one that is frozen", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(12)
      const [busy, other, idle] = [yield* fleet.start("a", 8), yield* fleet.start("b", 8), yield* fleet.start("c", 8)]
      const unused = { limit: 8, taken: 0, wanted: 0, processes: 0, pauseLeft: Duration.zero }
      assert.deepStrictEqual(yield* idle.scheduler.usage, unused)
      yield* busy.demand(20)
      yield* other.demand(20)
      yield* TestClock.adjust("10 seconds")
      const usage = yield* idle.scheduler.usage
      assert.deepInclude(usage, { limit: 8, wanted: 16, processes: 2 })
      assert.isTrue(fleet.inFlight() <= usage.taken && usage.taken <= 8 && usage.taken > 4, String(usage.taken))
      assert.deepStrictEqual(yield* busy.scheduler.usage, usage)
      yield* busy.freeze
      yield* other.demand(0)
      yield* TestClock.adjust("12 seconds")
      assert.deepInclude(yield* idle.scheduler.usage, { wanted: 8, processes: 1 })
      fleet.refuse(30_000)
      yield* other.demand(1)
      yield* TestClock.adjust("5 seconds")
      assert.isAbove(Duration.toMillis((yield* idle.scheduler.usage).pauseLeft), 20_000)
      yield* other.demand(0)
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual(yield* idle.scheduler.usage, unused)
    }))

  it.effect("slots of a process that was killed are free when its lease has expired, not before (X9)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(6)
      const [dead, heir] = [yield* fleet.start("a", 4), yield* fleet.start("b", 4)]
      yield* dead.demand(8)
      yield* TestClock.adjust("10 seconds")
      yield* dead.freeze
      yield* heir.demand(8)
      // by now the requests of the dead process have ended, but no other process can know
      yield* TestClock.adjust("18 seconds")
      assert.strictEqual(fleet.mostInFlight(16_000), 1)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(fleet.mostInFlight(28_000), 3)
    }))

  it.effect("a process that waits for the slots of processes that were killed logs it once (X1)", () => {
    const warnings: Array<unknown> = []
    const logger = Logger.make(({ message }) => void warnings.push(message))
    return Effect.gen(function*() {
      const fleet = yield* Fleet.make(15)
      for (const name of ["a", "b"]) {
        const dead = yield* fleet.start(name, 4)
        yield* dead.demand(8)
        yield* TestClock.adjust("5 seconds")
        yield* dead.freeze
      }
      yield* (yield* fleet.start("c", 4)).demand(8)
      yield* TestClock.adjust("9 seconds")
      assert.isEmpty(warnings)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(warnings.flat(), ["requests wait: other processes have all request slots of the account"])
      assert.isNotEmpty(sentBy(fleet, "c"))
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("a process that ends in order returns its slots at once (X1)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(7)
      const [first, second] = [yield* fleet.start("a", 4), yield* fleet.start("b", 4)]
      yield* first.demand(8)
      yield* TestClock.adjust("10 seconds")
      yield* first.demand(0)
      yield* TestClock.adjust("500 millis")
      while (fleet.inFlight() > 0) yield* TestClock.adjust("10 millis")
      yield* first.end
      const from = yield* now
      yield* second.demand(8)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(fleet.mostInFlight(from), 3)
    }))

  it.effect("a rate-limit response pauses the account in every process within a second, even if the process starts during the pause (R1)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(8)
      for (const name of ["a", "b", "c"]) yield* (yield* fleet.start(name, 8)).demand(4)
      yield* TestClock.adjust("10 seconds")
      fleet.refuse(30_000)
      yield* TestClock.adjust("10 seconds")
      const [pause] = fleet.pauses
      yield* (yield* fleet.start("d", 8)).demand(4)
      yield* TestClock.adjust("40 seconds")
      const during = fleet.sent.filter(({ at }) => at > pause!.at + 1_000 && at < pause!.until)
      assert.deepStrictEqual(during, [])
      for (const name of ["a", "b", "c", "d"]) assert.isNotEmpty(sentBy(fleet, name, pause!.until))
    }))

  it.effect("while the database does not answer, requests start only as long as the lease lasts (X10)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(9)
      const one = yield* fleet.start("a", 4)
      yield* one.demand(8)
      yield* TestClock.adjust("10 seconds")
      one.network.cut = "before"
      yield* TestClock.adjust("8 seconds")
      assert.isNotEmpty(sentBy(fleet, "a", 16_000))
      yield* TestClock.adjust("52 seconds")
      assert.isEmpty(sentBy(fleet, "a", 20_001))
      one.network.cut = "none"
      yield* TestClock.adjust("3 seconds")
      assert.isNotEmpty(sentBy(fleet, "a", 70_000))
    }))

  it.effect("a lease counts from before its statement was sent, however long the answer takes (X10)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(10)
      const one = yield* fleet.start("a", 4)
      one.network.after = 11_000
      yield* one.demand(4)
      yield* TestClock.adjust("1 minute")
      assert.isEmpty(fleet.sent)
    }))

  it.effect("a process that was frozen longer than its lease sends nothing that it had prepared (X9)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(11)
      // three requests that get their slots one after another, and are prepared at the same time
      const preparations = [40_000, 39_750, 39_500]
      const frozen = yield* fleet.start("a", 4, () => preparations.shift() ?? 0)
      const heir = yield* fleet.start("b", 4)
      yield* frozen.demand(8)
      yield* TestClock.adjust("5 seconds")
      yield* frozen.freeze
      yield* heir.demand(8)
      yield* TestClock.adjust("34900 millis")
      yield* frozen.resume
      // its new lease has one slot
      yield* TestClock.adjust("30 seconds")
      assert.isAtMost(fleet.mostInFlight(), 4)
      assert.isNotEmpty(sentBy(fleet, "a"))
    }))

  it.effect("a process on a machine that was suspended longer than its lease sends nothing (W4)", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(13)
      const [suspended, heir] = [yield* fleet.start("a", 4, () => 10), yield* fleet.start("b", 4)]
      yield* suspended.demand(8)
      yield* TestClock.adjust("5 seconds")
      yield* suspended.freeze
      suspended.network.cut = "before"
      yield* heir.demand(8)
      yield* TestClock.adjust("30 seconds")
      suspended.wasSuspended(30_000)
      yield* suspended.resume
      yield* TestClock.adjust("10 seconds")
      assert.isAtMost(fleet.mostInFlight(), 4)
      assert.isEmpty(sentBy(fleet, "a", 5_001))
    }))

  it.effect("keeps its slots between two bursts of requests", () =>
    Effect.gen(function*() {
      const fleet = yield* Fleet.make(14)
      const one = yield* fleet.start("a", 8)
      yield* one.demand(8)
      yield* TestClock.adjust("5 seconds")
      yield* one.demand(0)
      while (fleet.inFlight() > 0) yield* TestClock.adjust("10 millis")
      yield* TestClock.adjust("1 second")
      const from = yield* now
      yield* one.demand(8)
      yield* TestClock.adjust(0)
      assert.strictEqual(fleet.mostInFlight(from), 7)
    }))
})
