import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { Processes, type ProcessReport } from "../store/Processes.ts"
import { misconfigured, type StoreError } from "../store/Store.ts"
import { Membership } from "./Membership.ts"

const own = { version: "1.2.3", host: "one", pid: 7 }
const problem = { name: "kafka", reason: "no broker answers" }
const skew = 30_000

interface Table {
  /** Runs before each report. */
  readonly answer?: Effect.Effect<void, StoreError>
  readonly leave?: Effect.Effect<void>
}

/** A process with a table of processes that notes each call. */
const start = Effect.fnUntraced(function*({ answer = Effect.void, leave = Effect.void }: Table = {}) {
  const calls: Array<string> = []
  const reports: Array<ProcessReport> = []
  const processes = Processes.of({
    self: "self",
    heartbeatInterval: Duration.seconds(2),
    report: (report) =>
      Effect.andThen(
        answer,
        Effect.clockWith((clock) =>
          Effect.sync(() => {
            calls.push("report")
            reports.push(report)
            return clock.currentTimeMillisUnsafe() - skew
          })
        )
      ),
    leave: Effect.andThen(leave, Effect.sync(() => void calls.push("leave"))),
    list: Effect.succeed([]),
    prune: Effect.sync(() => void calls.push("prune"))
  })
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(
    Layer.provide(Membership.layer(own), Layer.succeed(Processes)(processes)),
    scope
  )
  yield* TestClock.adjust(0)
  return { calls, reports, membership: Context.get(context, Membership), end: Scope.close(scope, Exit.void) }
})

describe("a process of a fleet", () => {
  it.effect("reports every two seconds, and no more after it has left", () =>
    Effect.gen(function*() {
      const { calls, end } = yield* start()
      assert.deepStrictEqual(calls, ["report", "prune"])
      yield* TestClock.adjust("1999 millis")
      assert.lengthOf(calls, 2)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(calls, ["report", "prune", "report"])
      yield* end
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(calls, ["report", "prune", "report", "leave"])
    }))

  it.effect("reports its address at once, and from then on its problems and how far its clock is ahead of the database's", () =>
    Effect.gen(function*() {
      const { membership, reports } = yield* start()
      yield* membership.announce("http://127.0.0.1:8477", Effect.succeed([problem]))
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(reports, [
        { ...own, address: null, clockOffset: null, problems: [] },
        { ...own, address: "http://127.0.0.1:8477", clockOffset: skew, problems: [problem] }
      ])
    }))

  it.effect("does not take the time of a slow report for a difference of the clocks", () =>
    Effect.gen(function*() {
      const { reports } = yield* start({ answer: Effect.sleep("1 second") })
      yield* TestClock.adjust("6 seconds")
      assert.deepStrictEqual(reports.map(({ clockOffset }) => clockOffset), [null, null])
    }))

  it.effect("reports again after the store failed or did not answer", () =>
    Effect.gen(function*() {
      const answers: Array<Effect.Effect<void, StoreError>> = [
        Effect.never,
        misconfigured("no store"),
        Effect.die("a defect"),
        Effect.void
      ]
      const { reports } = yield* start({ answer: Effect.suspend(() => answers.shift() ?? Effect.void) })
      // four seconds for the first report, and two before each further one
      yield* TestClock.adjust("9999 millis")
      assert.isEmpty(reports)
      yield* TestClock.adjust("1 milli")
      assert.lengthOf(reports, 1)
    }))

  it.effect("removes the processes of the past at its start and every hour", () =>
    Effect.gen(function*() {
      const { calls } = yield* start()
      yield* TestClock.adjust("59 minutes")
      assert.lengthOf(calls.filter((call) => call === "prune"), 1)
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(calls.filter((call) => call === "prune"), 2)
    }))

  it.effect("ends within a second although the store does not answer", () =>
    Effect.gen(function*() {
      const { end } = yield* start({ leave: Effect.never })
      const ending = yield* Effect.forkChild(end)
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(ending.pollUnsafe())
      yield* TestClock.adjust("1 milli")
      yield* Fiber.join(ending)
    }))
})
