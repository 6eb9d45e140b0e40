import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import { Api } from "../../src/http/contract/Api.ts"
import { ShowsRecords } from "../../src/http/contract/ReadAudit.ts"
import { readsInWords, targetPath } from "./AuditWords.ts"

describe("the audit log in words", () => {
  it("has words for exactly the routes whose reads are recorded", () => {
    const routes = Object.values(Api.groups).flatMap(({ endpoints }) => Object.values(endpoints))
      .filter(({ annotations }) => Context.get(annotations, ShowsRecords))
      .map(({ path }) => path)
    assert.sameMembers(Object.keys(readsInWords), routes)
  })

  it.each([
    ["streams.pause", "greenhouse:acme/ats.tag", "/streams/greenhouse%3Aacme/ats.tag"],
    ["events.reveal", "greenhouse:acme/ats.tag", "/streams/greenhouse%3Aacme/ats.tag"],
    ["holds.approve", "2", "/holds/2"],
    ["integrations.add", "greenhouse:acme", "/integrations/greenhouse%3Aacme"],
    ["plugins.off", "tag hires", "/plugins/tag%20hires"],
    ["plugins.replay", "audience/ats.tag.created", "/plugins/audience"],
    ["plugins.stop-writes", "all plugins", "/plugins"],
    ["deadletters.redrive", "plan 5c1f0a9e2b7d4e63", null],
    ["sessions.end", "all", null]
  ])("has for %s of %s the page %s", (command, target, path) => {
    assert.strictEqual(targetPath(command, target), path)
  })
})
