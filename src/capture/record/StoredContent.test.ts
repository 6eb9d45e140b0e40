import { assert, describe, it } from "@effect/vitest"
import * as Processing from "../../domain/Processing.ts"
import { currentContent } from "./StoredContent.ts"

describe("stored content", () => {
  it("whose rules the stream does not know is redacted by all current rules", () => {
    const processing = Processing.make("ats.tag", { remoteData: "drop", redact: { "/name": "drop" }, key: "" })
    const content = JSON.stringify({ id: "a", name: "secret" })
    for (const redaction of [null, "unknown"]) {
      assert.deepStrictEqual(currentContent(processing, { redactions: [] }, { content, redaction }), { id: "a" })
    }
  })
})
