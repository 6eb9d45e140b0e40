/** The sentence that says how a stream is. */
import { assert, describe, it } from "@effect/vitest"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { conditionOf } from "../matters/StreamConditions.ts"
import { detailOf } from "./StreamDetail.ts"

const view = streamView("greenhouse:acme", "ats.tag", { watermark: "2026-03-01T12:00:00.000Z", records_live: 3 })
const sentenceOf = (change: Partial<StreamView>): string => {
  const condition = conditionOf({ ...view, ...change }, { interval_seconds: 100, sweep_interval_seconds: 3_600 })
  return detailOf(condition, { account: "default" }, null).sentence
}

describe("the sentence of a stream", () => {
  it("counts the changes that are held back, although the stream is read in time", () => {
    assert.strictEqual(
      sentenceOf({ freshness_seconds: 2, pending: { held: 340, absent: 1 } }),
      "Read in time: it was last read completely 2 s ago, and its target is 5 min. 340 changes are held back and not published."
    )
  })

  it("names the integration that was probably meant, and what to do with the misspelled one", () => {
    const blocked = { reason: "inactive", message: "There is no such integration", since: "2026-03-01T11:00:00.000Z" }
    const condition = conditionOf({ ...view, blocked }, { interval_seconds: 100, sweep_interval_seconds: 3_600 })
    assert.strictEqual(
      detailOf(condition, { account: "default" }, null, "greenhouse:acme-eu").sentence,
      "Blocked (inactive) since 2026-03-01 11:00:00 UTC: There is no such integration. " +
        "Did you mean greenhouse:acme-eu? Then remove the integration greenhouse:acme."
    )
  })
})

describe("the sentence of a failing stream", () => {
  const failing = { count: 3, message: "no answer", since: "2026-03-01T11:00:00.000Z" }

  it("counts its runs in a row, and says that Rollcall tries again", () => {
    assert.strictEqual(
      sentenceOf({ failing }),
      "Failing since 2026-03-01 11:00:00 UTC, 3 runs in a row: no answer. Rollcall tries again by itself."
    )
    assert.match(sentenceOf({ failing: { ...failing, count: 1 } }), /UTC, 1 run in a row: no answer\./)
  })

  it("says it once if the message says it, and ends with the log of the API", () => {
    const message = "no answer; it is tried again automatically"
    assert.match(
      sentenceOf({ failing: { ...failing, message, log_url: "https://api.example/logs/1" } }),
      /: no answer; it is tried again automatically\. The API's log of the request: https:\/\/api\.example\/logs\/1$/
    )
  })
})
