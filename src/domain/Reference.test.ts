import { assert, describe, it } from "@effect/vitest"
import { builtInModels } from "./BuiltInModels.ts"
import type { JsonObject } from "./Canonical.ts"
import { defineList, entryOf } from "./DefinedList.ts"
import { makeModels, type Model } from "./Model.ts"
import * as Processing from "./Processing.ts"
import { findReferences } from "./Reference.ts"

const of = (
  model: Model,
  content: JsonObject,
  processing = Processing.defaultProcessing(model),
  integration = "t:a"
) => findReferences({ integration, model }, processing, content)
const unannouncedCount = (references: ReturnType<typeof of>) =>
  [...references.values()].filter((reference) => reference.unannounced).length

const candidate = {
  id: "c",
  first_name: "Ada",
  last_name: "L",
  email_addresses: [{ email_address: "a@b", type: "PRIVATE" }, { email_address: "b@b", type: "WORK" }]
}

describe("references", () => {
  it("the candidate in an application and in an offer gives the same content although the shapes differ (N7)", () => {
    const inApplication = of("ats.application", {
      id: "a",
      candidate: { ...candidate, company: "X", title: "Y", changed_at: "2026-01-01T00:00:00.000Z", tags: [] }
    })
    const inOffer = of("ats.offer", {
      id: "o",
      status: "SENT",
      application: { candidate: { ...candidate, email_addresses: candidate.email_addresses.toReversed() } }
    })
    const [referencedRecord, reference] = [...inOffer][0]!
    assert.strictEqual(inApplication.get(referencedRecord)?.content, reference.content)
    assert.deepStrictEqual([unannouncedCount(inApplication), unannouncedCount(inOffer)], [0, 1])
  })

  it("a record and its embedded copy are the same referenced record, unless the integration or the id differs", () => {
    const [referencedRecord, reference] = [...of("ats.tag", { id: "t", name: "urgent", changed_at: "x" })][0]!
    const inside = (integration: string, id: string) =>
      of(
        "ats.application",
        { id: "a", candidate: { id: "c", tags: [{ id, remote_id: "r", name: "urgent" }] } },
        undefined,
        integration
      ).get(referencedRecord)
    assert.strictEqual(inside("t:a", "t")?.content, reference.content)
    assert.isUndefined(inside("t:b", "t"))
    assert.isUndefined(inside("t:a", "u"))
    assert.isFalse(reference.unannounced)
  })

  it("a shared property changes the content, another property does not", () => {
    const stage = (details: JsonObject) => of("ats.application", { id: "a", current_stage: { id: "s", ...details } })
    const same = stage({ name: "Screen", custom_fields: { a: 1 } })
    assert.deepStrictEqual(stage({ name: "Screen", custom_fields: { a: 2 } }), same)
    assert.notDeepEqual(stage({ name: "Interview" }), same)
  })

  it("a kind whose changes updated_after announces at every path is left out", () => {
    assert.strictEqual(of("hris.staffing_entity", { id: "e", locations: [{ id: "l", name: "Berlin" }] }).size, 0)
    assert.strictEqual(
      of("hris.performance_review", { id: "p", reviewee: { id: "e" }, review_cycle: { id: "r" } }).size,
      1
    )
  })

  it("a copy has the same referenced record, whichever lists are defined besides its own", () => {
    const list = (name: string, shared: ReadonlyArray<string>) =>
      entryOf(defineList(`crm.${name}`, { path: `/${name}`, references: [{ path: "owner", kind: "owner", shared }] }))
    const [own, other] = [list("deal", ["name"]), list("account", ["name", "email"])]
    const show = (...lists: ReadonlyArray<typeof own>) => {
      const models = makeModels([...builtInModels.entries, ...lists])
      const content = { id: "d", owner: { id: "u", name: "Ada", email: "a@b" } }
      return of("crm.deal", content, Processing.defaultProcessing("crm.deal", models))
    }
    assert.strictEqual(show(own).size, 1)
    assert.deepStrictEqual(show(other, own), show(own))
  })

  it("copies with other shared properties, of a defined list, are compared only with each other", () => {
    const shared = ["first_name"]
    const list = (name: string) =>
      entryOf(
        defineList(`hris.${name}`, { path: `/${name}`, references: [{ path: "boss", kind: "employee", shared }] })
      )
    const models = makeModels([...builtInModels.entries, list("manager"), list("contract")])
    const show = (model: Model, content: JsonObject) => of(model, content, Processing.defaultProcessing(model, models))
    const boss = { id: "e", first_name: "Ada", work_email: "ada@example.org" }
    const [manager, contract] = (["hris.manager", "hris.contract"] as const).map((model) =>
      show(model, { id: "m", boss })
    )
    const [payslip, builtIn] = [
      show("hris.payslip", { id: "p", employee: boss }),
      of("hris.payslip", { id: "p", employee: boss })
    ]
    assert.deepStrictEqual(manager, contract)
    assert.strictEqual(manager!.size, 1)
    assert.deepStrictEqual(payslip, builtIn)
    assert.isFalse(payslip.has([...manager!.keys()][0]!))
  })

  it("copies of built-in records in a defined list are compared with these records", () => {
    const shared = ["outcome"]
    const list = entryOf(
      defineList("ats.note", { path: "/ats/notes", references: [{ path: "about", kind: "application", shared }] })
    )
    const models = makeModels([...builtInModels.entries, list])
    const show = (model: Model, content: JsonObject) => of(model, content, Processing.defaultProcessing(model, models))
    const about = { id: "a", outcome: "HIRED" }
    const [referencedRecord, copy] = [...show("ats.note", { id: "n", about })][0]!
    assert.strictEqual(show("ats.application", about).get(referencedRecord)?.content, copy.content)
  })

  it("redacted content is not compared (I11)", () => {
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
