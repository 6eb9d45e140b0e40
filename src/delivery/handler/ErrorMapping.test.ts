import { assert, describe, it } from "@effect/vitest"
import { type HandlerError } from "../../plugin/Failure.ts"
import { Forbidden, Inactive, SourceError, Transient } from "../../source/Source.ts"
import { fromApi } from "./ErrorMapping.ts"

const logUrl = "https://app.example.com/logs/4f"
const detail = { code: "INTEGRATION.INACTIVE", message: "refused", logUrl }
const messageOf = (error: HandlerError): string => "message" in error ? error.message : ""

describe("the failure of a handler", () => {
  it.each([new Forbidden(detail), new Transient(detail)])(
    "names the page of the API's log of the request: %s",
    (reason) => {
      assert.include(
        messageOf(fromApi("addTag", new SourceError({ reason }), "eu")),
        `; the API's log of the request: ${logUrl}`
      )
    }
  )

  it("does not name it if the delivery waits, so that equal causes have equal messages", () => {
    const failure = fromApi("addTag", new SourceError({ reason: new Inactive(detail) }), "eu")
    assert.strictEqual(failure._tag, "Blocked")
    assert.notInclude(messageOf(failure), logUrl)
  })
})
