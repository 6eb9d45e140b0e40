/** The sweep that ends a hold without a decision. */
import { assert, describe, it } from "@effect/vitest"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { markBelowLimits } from "../../domain/Guard.ts"
import type { ListedHold } from "../../store/Records.ts"
import type { IntegrationState } from "../../store/State.ts"
import { holdView } from "./HoldViews.ts"

const [now, hour] = [Date.parse("2026-03-01T04:16:00Z"), 3_600_000]
const integration = { id: "lever:acme", interval: 60_000, sweepInterval: hour } as IntegrationState
const state = { paused: false, blocked: null, failing: null, lastSweep: { endedAt: now - hour / 4 } }
const hold: ListedHold = {
  id: 1,
  integration: "lever:acme",
  model: "ats.tag",
  kind: "deletes",
  state: "open",
  reason: markBelowLimits("8 of 25 records deleted", true),
  paths: [],
  openedAt: now - hour,
  decidedAt: null,
  released: 0,
  release: null,
  published: null,
  rows: 8
}

const viewOf = (change: Partial<ListedHold>, stream: object = {}) => {
  const { reason, sweep_at } = holdView(builtInModels, { ...hold, ...change }, {
    state: { ...state, ...stream } as never,
    integration,
    now
  })
  return { reason, sweep_at }
}

describe("the view of a hold", () => {
  it("names the sweep that publishes changes that are fewer than the limits", () => {
    assert.deepStrictEqual(viewOf({}), {
      reason: "8 of 25 records deleted, fewer than the limits now: the sweep at about 2026-03-01 05:01 UTC " +
        "publishes those that it still finds, unless you reject the hold",
      sweep_at: "2026-03-01T05:01:00.000Z"
    })
  })

  it("names no time while the stream is not read, or if the sweep is late", () => {
    const failure = { reason: "key", message: "", since: now }
    for (const stream of [{ paused: true }, { blocked: failure }, { lastSweep: { endedAt: now - 2 * hour } }]) {
      assert.include(viewOf({}, stream).reason, ": the next complete sweep publishes those")
    }
  })

  it("names no sweep for a hold above the limits, or one that was rejected", () => {
    const reason = "20 of 25 records deleted"
    assert.deepStrictEqual(viewOf({ reason }), { reason, sweep_at: null })
    assert.deepStrictEqual(viewOf({ state: "rejected" }), { reason: hold.reason, sweep_at: null })
  })
})
