import { assert, describe, it } from "@effect/vitest"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { type Condition, conditionOf } from "./StreamConditions.ts"

const view = streamView("greenhouse:acme", "ats.tag", { watermark: "2026-03-01T12:00:00.000Z", records_live: 3 })
const intervals = (interval_seconds: number, sweep_interval_seconds = 3_600) => ({
  interval_seconds,
  sweep_interval_seconds
})
const problem = { message: "refused", since: "2026-03-01T11:00:00.000Z" }

describe("the state of a stream", () => {
  it("has the failure that opened a circuit as its cause, and its own message without a circuit", () => {
    const causeOf = (change: Partial<StreamView>) => {
      const { cause, message } = conditionOf({ ...view, ...change }, intervals(100))
      return [message, cause]
    }
    const failing = { ...problem, count: 2 }
    assert.deepStrictEqual(causeOf({ failing }), ["refused", "refused"])
    assert.deepStrictEqual(causeOf({ failing: { ...failing, opened_by: "no answer" } }), ["refused", "no answer"])
    const blocked = { ...problem, message: "the key", reason: "key" }
    assert.deepStrictEqual(causeOf({ blocked, failing: { ...failing, opened_by: "no answer" } }), [
      "the key",
      "the key"
    ])
    assert.deepStrictEqual(causeOf({}), [null, ""])
  })

  it.each<readonly [string, Partial<StreamView>, Condition["state"]]>([
    ["that is within three intervals", { freshness_seconds: 300 }, "ok"],
    ["that is further behind", { freshness_seconds: 301 }, "late"],
    ["that was never read", { freshness_seconds: null, phase: "starting" }, "backfilling"],
    ["that is backfilling", { freshness_seconds: 9_999, phase: "backfilling" }, "backfilling"],
    ["that fails", { failing: { ...problem, count: 2 } }, "failing"],
    ["that is blocked and paused", { blocked: { ...problem, reason: "key" }, paused: true }, "blocked"],
    ["that is paused and fails", { failing: { ...problem, count: 2 }, paused: true }, "paused"]
  ])("%s is %j: %s", (_, change, state) => {
    assert.strictEqual(conditionOf({ ...view, ...change }, intervals(100)).state, state)
  })

  it("has a target of at least two minutes, and a longer one if polls return the whole list", () => {
    assert.strictEqual(conditionOf(view, intervals(1)).target, 120)
    assert.strictEqual(conditionOf({ ...view, polls_return: "everything" }, intervals(60)).target, 1_800)
  })
})

describe("the last complete sweep of a stream", () => {
  const lateness = (change: Partial<StreamView>, sweepInterval = 3_600) =>
    conditionOf({ ...view, ...change }, intervals(60, sweepInterval)).sweepLateness

  it("is late if it is older than twice the sweep interval, and than two minutes (R5)", () => {
    assert.strictEqual(lateness({ sweep_age_seconds: 7_200 }), 1)
    assert.strictEqual(lateness({ sweep_age_seconds: 240 }, 2), 2)
    assert.isNull(conditionOf({ ...view, sweep_age_seconds: 7_200 }, intervals(60)).lateSweep)
    assert.strictEqual(
      conditionOf({ ...view, sweep_age_seconds: 7_260 }, intervals(60)).lateSweep,
      "The last complete sweep of greenhouse:acme/ats.tag ended 2 h 1 min ago, and its sweep interval is 1 h: deletes and nested " +
        "changes may be found late."
    )
  })

  it("is not late if the stream has no polls, because it is swept in the poll interval, which may be longer (R5)", () => {
    const packages = { ...view, last_poll_started_at: null, sweep_age_seconds: 50_000 } as const
    assert.isNull(conditionOf(packages, intervals(86_400, 21_600)).lateSweep)
  })

  it("is not late if the stream is paused, blocked or backfilling, or was never swept", () => {
    for (
      const change of [
        { paused: true },
        { blocked: { ...problem, reason: "key" } },
        { phase: "backfilling" },
        { sweep_age_seconds: null }
      ] as const
    ) {
      assert.isNull(lateness({ sweep_age_seconds: 9_999, ...change }))
    }
    assert.isAbove(lateness({ sweep_age_seconds: 9_999, failing: { ...problem, count: 2 } }) ?? 0, 1)
  })
})
