import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import { initialState } from "../../capture/StreamLifecycle.ts"
import type { StreamState } from "../../store/State.ts"
import { completenessText } from "./Completeness.ts"

const noon = Date.parse("2026-03-01T12:00:00Z")
const minute = 60_000
const settings = {
  integration: "greenhouse:acme",
  model: "ats.tag",
  account: "default",
  interval: Duration.minutes(1),
  sweepInterval: Duration.hours(6)
} as const
const live: StreamState = {
  ...initialState(settings, Duration.minutes(5)),
  phase: "live",
  backfilledAt: noon - 100 * minute,
  watermark: noon,
  previousWatermark: noon - minute,
  reportedTo: noon - 6 * minute
}

describe("why complete_to is behind", () => {
  it("is the overlap of the polls, and nothing before the backfill is complete", () => {
    assert.strictEqual(
      completenessText(live),
      "is 5 min before the last complete poll, because the API may show a change that late"
    )
    assert.isNull(completenessText({ ...live, phase: "backfilling" }))
  })

  it("is that the stream is not read", () => {
    const failure = { message: "no answer", since: noon, code: null }
    const unread = [{ paused: true }, { failing: { ...failure, count: 1 } }, {
      blocked: { ...failure, reason: "key" }
    }] as const
    for (const change of unread) {
      assert.strictEqual(completenessText({ ...live, ...change }), "does not move while the stream is not read")
    }
  })

  it("is a change that the API showed very late: then complete_to moves after a time that the text names (W15)", () => {
    assert.strictEqual(
      completenessText({ ...live, overlap: 346 * minute }),
      "does not move, because the API showed a change so late that polls now read back 5 h 46 min; it moves again when the second poll " +
        "after 2026-03-01 17:40:00 UTC is complete"
    )
  })

  it("is a watermark that was set back: then complete_to moves with the next poll (W15)", () => {
    assert.strictEqual(
      completenessText({ ...live, previousWatermark: noon - 90 * minute }),
      "does not move until the next poll is complete"
    )
  })
})
