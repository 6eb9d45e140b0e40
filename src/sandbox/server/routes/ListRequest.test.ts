import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { afterEach } from "vitest"
import { parseListRequest } from "./ListRequest.ts"

const parse = (query: Record<string, string>) => parseListRequest("ats.application", query)
const updatedAfter = (text: string) => Result.map(parse({ updated_after: text }), ({ query }) => query.updatedAfter)

describe("updated_after", () => {
  const zone = process.env["TZ"]
  afterEach(() => {
    if (zone === undefined) delete process.env["TZ"]
    else process.env["TZ"] = zone
  })

  it("is UTC with or without Z, regardless of the server's time zone (W9)", () => {
    for (const timeZone of ["UTC", "America/New_York", "Asia/Kolkata"]) {
      process.env["TZ"] = timeZone
      const noon = Date.UTC(2026, 2, 1, 12)
      assert.deepStrictEqual(updatedAfter("2026-03-01T12:00:00Z"), Result.succeed(noon))
      assert.deepStrictEqual(updatedAfter("2026-03-01T12:00:00"), Result.succeed(noon))
      assert.deepStrictEqual(updatedAfter("2026-03-01T12:00:00.250"), Result.succeed(noon + 250))
      assert.deepStrictEqual(updatedAfter("2026-03-01"), Result.succeed(Date.UTC(2026, 2, 1)))
      assert.deepStrictEqual(updatedAfter("2026-03-01Z"), Result.succeed(Date.UTC(2026, 2, 1)))
    }
  })

  it("must match the documented pattern, even if a shorter text could be parsed as a date", () => {
    for (
      const text of ["", "2026", "2026-03", "2026-3-1", "2026-03-01T12:00Z", "2026-03-01 12:00:00", "1772366400000"]
    ) {
      assert.isTrue(Result.isFailure(updatedAfter(text)), text)
    }
  })

  it("rejects days and times that do not exist", () => {
    for (const text of ["2026-02-30", "2026-13-01", "2026-02-29T10:00:00Z", "2026-03-01T25:00:00", "0000-00-00"]) {
      assert.isTrue(Result.isFailure(updatedAfter(text)), text)
    }
  })
})
