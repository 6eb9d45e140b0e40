/** The effects of writes in the test environment agree with the contract and its table of writes. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { writeExamples } from "../../test/support/api/Examples.ts"
import { recordSchemas } from "../api/Records.ts"
import { type WriteName, writeNames, writes, writeSchemas } from "../api/Writes.ts"
import type { JsonObject } from "../domain/Canonical.ts"
import { type ApiRecords, applyWrite, recordKey } from "./WriteEffects.ts"

const integration = "sandbox:test"
const application = recordKey(integration, "ats.application", "a1")

/** Records that every write can be applied to. */
const recordsForWrites = (): ApiRecords => {
  const { application_id } = writeExamples.updateInterview.params
  const { interview_id } = writeExamples.updateInterview.body
  const { staffing_entity_id } = writeExamples.expectSkill.params
  const { candidate_id } = writeExamples.addTag.params
  const records: ApiRecords = new Map()
  const interviews = [{ id: interview_id }]
  const candidate = { id: candidate_id, tags: [{ id: "t1", ...writeExamples.removeTag.body.tag }] }
  const content: JsonObject = { id: "a1", candidate_id, candidate, interviews }
  records.set(application, content)
  records.set(recordKey(integration, "ats.application", application_id), { ...content, id: application_id })
  records.set(recordKey(integration, "hris.staffing_entity", staffing_entity_id), { id: staffing_entity_id })
  return records
}

const done = (write: WriteName, records: ApiRecords) => {
  const { body, params } = writeExamples[write]
  const [id = ""] = Object.values<string>(params)
  return applyWrite(records, { integration, write, id, body: JSON.parse(JSON.stringify(body)) }, "made-1")
}

describe("writes in the test environment", () => {
  for (const write of writeNames) {
    it(`${write} returns data as in the contract, and is visible where the table of writes says`, () => {
      const records = recordsForWrites()
      if (write === "addTag") done("removeTag", records)
      const before = JSON.stringify([...records])
      const data = done(write, records)
      assert.isTrue(Schema.is(writeSchemas[write].data as Schema.Codec<unknown, unknown>)(data))
      assert.strictEqual(JSON.stringify([...records]) !== before, writes[write].visibleIn !== null)
      for (const [at, record] of records) {
        const [, model]: [string, keyof typeof recordSchemas] = JSON.parse(at)
        const schema: Schema.Codec<unknown, unknown> | undefined = recordSchemas[model]
        if (schema !== undefined) assert.isTrue(Schema.is(schema)(record), at)
      }
      if (writes[write].resolutionPolicy === "safe" && writes[write].visibleIn !== null) {
        const once = JSON.stringify([...records])
        done(write, records)
        assert.strictEqual(JSON.stringify([...records]), once)
      }
    })
  }
})

describe("docs/plugins/guide.md", () => {
  it("gives every write the same resolution policy as the table of writes (L5)", () => {
    const guide = readFileSync(new URL("../../docs/plugins/guide.md", import.meta.url), "utf8")
    const [, section = ""] = /^## Unknown outcomes\n(.*?)^## /ms.exec(guide) ?? []
    const rows = section.split("\n").filter((line) => line.startsWith("| `"))
    const phrases = {
      safe: /sends it again: /,
      look: /sends it again if not/,
      find: /looks for the application/,
      never: /^ stops/
    }
    const found = rows.flatMap((row) => {
      const [, names = "", action = ""] = row.split("|")
      const policy = Object.entries(phrases).find(([, phrase]) => phrase.test(action))?.[0]
      return [...names.matchAll(/`(\w+)`/g)].map(([, name]) => `${name}: ${policy}`)
    })
    assert.sameMembers(found, writeNames.map((name) => `${name}: ${writes[name].resolutionPolicy}`))
  })
})
