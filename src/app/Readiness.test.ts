import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { streamView } from "../../test/support/http/StreamViews.ts"
import type { StoreOverview } from "../http/status/StoreOverview.ts"
import { fleetDependency, kafkaDependency, sweepsDependency } from "./Readiness.ts"

const overview: StoreOverview = {
  streams: [],
  redacting: [],
  keptRecords: new Map(),
  integrations: [],
  holds: [],
  log: { newestPosition: 70, published: 58, unpublishedSince: 0 }
}

/** The problem and the remark of the relay in this state. */
const checkOf = (state: string, reason: { readonly message: string; readonly hint: string } | null = null) => {
  const { problem, remark } = kafkaDependency({ status: Effect.succeed({ state, reason }) })
  return Effect.all([problem, remark!(overview), remark!(null)])
}

describe("the check of Kafka", () => {
  it.effect("passes where another process publishes, with the lag of that process", () =>
    Effect.gen(function*() {
      const remark = "standby: another process publishes; 12 events of the log are not in Kafka yet"
      assert.deepStrictEqual(yield* checkOf("standby"), [null, remark, null])
    }))

  it.effect("passes without a remark where the relay runs, and has the reason where it does not", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* checkOf("running"), [null, null, null])
      const reason = { message: "no broker answers", hint: "check KAFKA_BROKERS" }
      assert.deepStrictEqual(yield* checkOf("waiting", reason), ["no broker answers; check KAFKA_BROKERS", null, null])
    }))
})

describe("the check of sweeps", () => {
  const remarkOn = (...ages: ReadonlyArray<number>) =>
    sweepsDependency.remark!({
      ...overview,
      streams: ages.map((age, index) => streamView(`a:${index}`, "ats.tag", { sweep_age_seconds: age }))
    })

  it.effect("passes, and names a stream that is not swept in time (R5)", () =>
    Effect.gen(function*() {
      assert.isUndefined(sweepsDependency.problem)
      assert.isNull(yield* remarkOn(60))
      assert.match((yield* remarkOn(60, 99_999)) ?? "", /^The last complete sweep of a:1\/ats.tag ended 1 d .*late\.$/)
      assert.match((yield* remarkOn(99_999, 99_999)) ?? "", /2 streams are not swept in time\.$/)
    }))
})

describe("the check of the fleet", () => {
  it.effect("fails until the process has its share of the work", () =>
    Effect.gen(function*() {
      const joined = yield* Latch.make(false)
      const { problem } = fleetDependency({ joined }, { problem: Effect.succeed(null) })
      assert.match((yield* problem) ?? "", /waits for its share/)
      yield* joined.open
      assert.isNull(yield* problem)
    }))

  it.effect("fails while the process lacks a key of the store, with the reason", () =>
    Effect.gen(function*() {
      const { problem } = fleetDependency({ joined: yield* Latch.make(true) }, { problem: Effect.succeed("no key k1") })
      assert.strictEqual(yield* problem, "no key k1")
    }))
})
