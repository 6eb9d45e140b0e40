import { assert, describe, it } from "@effect/vitest"
import { firstAnswer } from "./FirstAnswer.ts"

const row = { stream: "sandbox:a/ats.tag", state: "backfilling", cause: null, records_live: 0 } as const
const blocked = { ...row, stream: "sandbox:a/ats.job", state: "blocked", cause: "status 404" } as const

describe("the first answer of the API about a new integration", () => {
  it("is awaited until the API has refused a request or shown a record", () => {
    assert.isNull(firstAnswer("sandbox:a", []))
    assert.isNull(firstAnswer("sandbox:a", [row, row]))
    assert.isNull(firstAnswer("sandbox:a", [{ ...row, state: "late" }]))
  })

  it("is good once a record or an empty list was read", () => {
    for (const read of [{ ...row, records_live: 1 }, { ...row, state: "ok" } as const]) {
      assert.strictEqual(firstAnswer("sandbox:a", [row, read])?.tone, "good")
    }
  })

  it("is the refusal of one stream, even if another is read", () => {
    assert.deepStrictEqual(firstAnswer("sandbox:a", [{ ...row, records_live: 1 }, blocked]), {
      tone: "bad",
      text:
        "sandbox:a is added, but sandbox:a/ats.job cannot be read: status 404. If the id is wrong, remove sandbox:a."
    })
  })
})
