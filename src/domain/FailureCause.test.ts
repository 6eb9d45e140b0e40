import { assert, describe, it } from "@effect/vitest"
import { causeOf, isTemporary, remedies, remedyOf, splitLog } from "./FailureCause.ts"

describe("the cause of a failure", () => {
  it.each([
    ["addTag: no such tag; the API's log of the request: https://logs.example/a1", "addTag: no such tag"],
    ["POST https://hooks.example/in/17: status 500", "POST …: status 500"],
    ["candidate 8Xi6iZrwusZqJmDGXs49GBmJ has no e-mail", "candidate … has no e-mail"],
    ["refused at 2026-03-01T12:00:00.000Z for ada@example.org", "refused at … for …"],
    ["addApplication: status 404 after 3 attempts", "addApplication: status 404 after 3 attempts"]
  ])("of %j is %j", (message, cause) => {
    assert.strictEqual(causeOf(message), cause)
  })

  it("is temporary only if sending again is its whole remedy", () => {
    const temporary = Object.keys(remedies).filter((reason) => isTemporary(reason, null))
    assert.deepStrictEqual(temporary, ["Transient", "TimedOut", "RateLimited"])
    assert.isFalse(isTemporary("Transient", "OutcomeUnknown"))
    assert.strictEqual(remedyOf("Permanent", "OutcomeUnknown"), remedies["OutcomeUnknown"])
  })

  it("has no link that is not https", () => {
    assert.deepStrictEqual(splitLog("no; the API's log of the request: javascript:alert(1)"), {
      text: "no; the API's log of the request: javascript:alert(1)",
      log: null
    })
    assert.strictEqual(
      splitLog("no; the API's log of the request: https://logs.example/a1").log,
      "https://logs.example/a1"
    )
  })
})
