import { assert, describe, it } from "@effect/vitest"
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import type { JsonObject } from "../../../src/domain/Canonical.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { findReferences } from "../../../src/domain/Reference.ts"

const of = (
  model: IncrementalModel,
  content: JsonObject,
  processing = Processing.defaultProcessing(model),
  integration = "t:a"
) => findReferences({ integration, model }, processing, content)
const silent = (mentions: ReturnType<typeof of>) =>
  [...mentions.values()].filter((mention) => mention.unannounced).length

const candidate = {
  id: "c",
  first_name: "Ada",
  last_name: "L",
  email_addresses: [{ email_address: "a@b", type: "PRIVATE" }, { email_address: "b@b", type: "WORK" }]
}

describe("mentions", () => {
  it("N7: an application's candidate and an offer's, which show different shapes, are the same content", () => {
    const inApplication = of("ats.application", {
      id: "a",
      candidate: { ...candidate, company: "X", title: "Y", changed_at: "2026-01-01T00:00:00.000Z", tags: [] }
    })
    const inOffer = of("ats.offer", {
      id: "o",
      status: "SENT",
      application: { candidate: { ...candidate, email_addresses: candidate.email_addresses.toReversed() } }
    })
    const [subject, mention] = [...inOffer][0]!
    assert.strictEqual(inApplication.get(subject)?.content, mention.content)
    assert.deepStrictEqual([silent(inApplication), silent(inOffer)], [0, 1])
  })

  it("a record of its own is the same thing as where it is repeated; of another integration, or id, it is not", () => {
    const [subject, mention] = [...of("ats.tag", { id: "t", name: "urgent", changed_at: "x" })][0]!
    const inside = (integration: string, id: string) =>
      of(
        "ats.application",
        { id: "a", candidate: { id: "c", tags: [{ id, remote_id: "r", name: "urgent" }] } },
        undefined,
        integration
      ).get(subject)
    assert.strictEqual(inside("t:a", "t")?.content, mention.content)
    assert.isUndefined(inside("t:b", "t"))
    assert.isUndefined(inside("t:a", "u"))
    assert.isFalse(mention.unannounced)
  })

  it("a property that is not shared changes nothing, a shared one does", () => {
    const stage = (details: JsonObject) => of("ats.application", { id: "a", current_stage: { id: "s", ...details } })
    const same = stage({ name: "Screen", custom_fields: { a: 1 } })
    assert.deepStrictEqual(stage({ name: "Screen", custom_fields: { a: 2 } }), same)
    assert.notDeepEqual(stage({ name: "Interview" }), same)
  })

  it("what is announced at every place that shows it is left out", () => {
    assert.strictEqual(of("hris.staffing_entity", { id: "e", locations: [{ id: "l", name: "Berlin" }] }).size, 0)
    assert.strictEqual(
      of("hris.performance_review", { id: "p", reviewee: { id: "e" }, review_cycle: { id: "r" } }).size,
      1
    )
  })

  it("I11: what is redacted is not told apart", () => {
    const redacted = Processing.make("ats.offer", {
      remoteData: "drop",
      redact: { "/application/candidate/first_name": "drop" },
      key: "k"
    })
    const show = (first_name: string) =>
      of("ats.offer", redacted.apply({ id: "o", application: { candidate: { ...candidate, first_name } } }), redacted)
    assert.deepStrictEqual(show("Ada"), show("Eve"))
  })
})
