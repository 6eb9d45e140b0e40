import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { codeOf, mask } from "./Masking.ts"

describe("mask", () => {
  it.each([
    ["field is not supported", "field is not supported"],
    ["Candidate Ada Lovelace has no phone, id 4711", "… has no phone, id …"],
    [
      "rejected: PLATFORM.INPUT_INVALID (REMOTE.RATE_LIMIT_EXCEEDED).",
      "rejected: PLATFORM.INPUT_INVALID (REMOTE.RATE_LIMIT_EXCEEDED)."
    ],
    ['custom_field "very large shoe" was dropped', "custom_field … was dropped"],
    ["sent to ada@example.org, twice", "sent to …, twice"],
    ["candidate ada lovelace of lovelace ltd has no phone", "candidate … of … has no phone"],
    ["the record of o'brien-smith and müller was not updated", "the record of … and … was not updated"],
    ["refused: LOVELACE.ADA, ADA, LOVELACE_ADA", "refused: …, …, …"],
    ["the job isn't closed", "the job … closed"],
    ["(ada), [lovelace]; grant.", "(…), […]; …."],
    ["cut off in “a long quo", "cut off in …"],
    ["", ""]
  ])("masks %s (I11)", (text, expected) => {
    assert.strictEqual(mask(text), expected)
  })

  it.effect.prop(
    "removes every digit, address, quoted text and capitalized word, and keeps at most 200 characters (I11)",
    [
      Schema.String
    ],
    ([text]) =>
      Effect.sync(() => {
        const result = mask(`${text} Ada ${text} x@y.z "${text}" ${text.repeat(30)}`)
        assert.isAtMost(result.length, 200)
        assert.notMatch(result, /\d|@|"/)
        assert.notMatch(result, /\p{Lu}\p{Ll}/u)
      })
  )
})

describe("codeOf", () => {
  it("returns codes and drops free text", () => {
    assert.strictEqual(codeOf("PLATFORM.INPUT_INVALID"), "PLATFORM.INPUT_INVALID")
    for (const value of ["Ada Lovelace", "", "lower.case", "A".repeat(81), 7, null, undefined, {}]) {
      assert.isNull(codeOf(value))
    }
  })
})
