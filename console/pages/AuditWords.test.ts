import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import { Api } from "../../src/http/contract/Api.ts"
import { ShowsRecords } from "../../src/http/contract/ReadAudit.ts"
import { readsInWords } from "./AuditWords.ts"

describe("the audit log in words", () => {
  it("has words for exactly the routes whose reads are recorded", () => {
    const routes = Object.values(Api.groups).flatMap(({ endpoints }) => Object.values(endpoints))
      .filter(({ annotations }) => Context.get(annotations, ShowsRecords))
      .map(({ path }) => path)
    assert.sameMembers(Object.keys(readsInWords), routes)
  })
})
