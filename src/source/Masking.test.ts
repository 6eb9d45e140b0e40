import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorCodes } from "../api/ErrorClassification.ts"
import { codeOf, logUrlOf, mask, titleOf } from "./Masking.ts"

describe("the title of an error", () => {
  it.each([
    ["PLATFORM.INTEGRATION_NOT_FOUND", "There is no such integration", "There is no such integration"],
    ["PLATFORM.INTEGRATION_NOT_FOUND", null, "There is no such integration"],
    ["PLATFORM.INTEGRATION_NOT_FOUND", "There is a problem of Ada", "There is no such integration"],
    ["PLATFORM.INTEGRATION_NOT_FOUND", "Integration not found", "Integration not found"],
    ["ATS.SOMETHING_NEW", "There is no such integration", "There is no such integration"],
    ["ATS.SOMETHING_NEW", "There is a problem of Ada", "There is a problem of …"],
    [null, "Refused for Ada", "… for …"],
    [null, "", null],
    ["toString", 7, null]
  ])(
    "of %s shows words of known titles, and the known title of its code in place of one with masked words: %j",
    (code, title, shown) => {
      assert.strictEqual(titleOf(code, title), shown)
    }
  )
})

describe("the URL of the API's log", () => {
  it.each([
    ["https://app.example.com/logs/4f?x=1#y", "https://app.example.com/logs/4f?x=1#y"],
    ["http://app.example.com/logs/4f", null],
    ["javascript:alert(1)", null],
    ["https://ada:pw@app.example.com/", null],
    ["https://app.example.com/\u001b[31m", null],
    ["https://app.example.com/ x", null],
    [`https://app.example.com/${"x".repeat(400)}`, null],
    ["https://", null],
    [null, null],
    [{}, null]
  ])("is kept only if it is safe: %j", (value, kept) => {
    assert.strictEqual(logUrlOf(value), kept)
  })
})

describe("mask", () => {
  it("keeps the titles that the API is known to have, even without a code", () => {
    for (const [, , title] of Object.values(errorCodes)) assert.strictEqual(mask(title), title)
  })

  it.each([
    ["field is not supported", "field is not supported"],
    ["The request is not valid. Missing permission", "The request is not valid. Missing permission"],
    // surnames, and a capital within a sentence
    ["Page has no phone. Day is Ada", "… has no phone. … is …"],
    ["sent The Request of Young There", "sent … of …"],
    ["THERE was an API", "… was an API"],
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
        assert.notMatch(result.replace(/(^|[.!?] )([([]*)\p{Lu}/gu, "$1$2"), /\p{Lu}\p{Ll}/u)
      })
  )
})

describe("codeOf", () => {
  it("returns the codes that the API publishes, and others that are made of words of the list (I11)", () => {
    for (const code of [...Object.keys(errorCodes), "PLATFORM.FIELD_NOT_SUPPORTED"]) {
      assert.strictEqual(codeOf(code), code)
    }
  })

  it("drops everything else, because a word in capitals may be a name (I11)", () => {
    const texts = [
      "Ada Lovelace",
      "LOVELACE",
      "ADA.LOVELACE",
      "PLATFORM.ADA_LOVELACE",
      "SW1Y",
      "1815",
      "constructor",
      ""
    ]
    for (const value of [...texts, "lower.case", "A".repeat(81), 7, null, undefined, {}]) {
      assert.isNull(codeOf(value))
    }
  })
})
