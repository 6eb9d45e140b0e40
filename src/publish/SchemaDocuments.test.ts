import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { assert, describe, it } from "vitest"
import { entry } from "../../test/integration/publish/Entries.ts"
import { listExamples, recordExamples } from "../../test/support/api/Examples.ts"
import { builtInModels, modelNames } from "../domain/BuiltInModels.ts"
import type { JsonObject, JsonValue } from "../domain/Canonical.ts"
import { dataTextOf } from "../domain/ChangeEvent.ts"
import { defineList, entryOf } from "../domain/DefinedList.ts"
import type { Model } from "../domain/Model.ts"
import * as Processing from "../domain/Processing.ts"
import type { SchemaName } from "../domain/SchemaId.ts"
import { World } from "../sandbox/world/World.ts"
import { recordColumnsOf } from "./RecordColumns.ts"
import { eventSchemaDocumentOf, publishedSchemas, recordSchemaDocumentOf } from "./SchemaDocuments.ts"

const ajv = new Ajv2020({ strict: false })
addFormats.default(ajv)
const validators = new Map(publishedSchemas(builtInModels).map(({ document, name }) => [name, ajv.compile(document())]))
const validatorOf = (name: SchemaName) => validators.get(name)!

/** The records of a simulated world that has changed for two days, and the full examples of the contract. */
const records = new Map<Model, ReadonlyArray<JsonObject>>()
const world = World.make({ seed: 11, records: 60, start: Date.parse("2026-01-01T00:00:00Z") })
world.advance(Date.parse("2026-01-03T00:00:00Z"))
const isRecord = (value: unknown): value is JsonObject => typeof value === "object" && value !== null
for (const model of modelNames) {
  const source = model === "ats.candidate" ? "ats.application" : model
  const shown = world.integrations.filter(({ models }) => models.includes(source))
    .flatMap(({ id }) => [...world.truth(id, source).values()])
  const example = source === "assessment.package" ? recordExamples.assessmentPackage : listExamples[source]
  const rows = [example, ...shown.slice(-24)].filter(isRecord)
  records.set(model, source === model ? rows : rows.map((row) => row["candidate"]).filter(isRecord))
}

/** A JSON Pointer for each property below the record, in the form of the configuration's rules. */
const pointersOf = (value: JsonValue, at = ""): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap((member) => pointersOf(member, at))
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => [`${at}/${name}`, ...pointersOf(inner, `${at}/${name}`)])
}

const processings = (model: Model): ReadonlyArray<Processing.Processing> => {
  const pointers = new Set((records.get(model) ?? []).flatMap((record) => pointersOf(record)))
  const redactions = [...pointers].filter((pointer) => pointer !== "/id").flatMap((pointer) => [
    { [pointer]: "hash" as const },
    { [pointer]: "drop" as const }
  ])
  return [
    ...(["drop", "carry", "track"] as const).map((remoteData) => ({ remoteData, redact: {} })),
    ...redactions.map((redact) => ({ remoteData: "carry" as const, redact }))
  ].map((rules) => Processing.make(model, { ...rules, key: "a key" }))
}

/** Name, version and content of every schema. */
const pinned: ReadonlyArray<string> = [
  "ats.application 1 641ed0a99aa7",
  "ats.scorecard 1 a7853a526f02",
  "ats.offer 1 98b50a308fb7",
  "ats.tag 1 fce9fb991e9e",
  "ats.candidate 1 f725ff958be6",
  "hris.payslip 1 3a8d15e85b51",
  "hris.performance_review 1 cfc9c18bf638",
  "hris.performance_review_cycle 1 da9c9a807641",
  "hris.staffing_entity 1 3fd78db488c5",
  "hris.legal_entity 1 c20a8fbeaf88",
  "hris.skill 1 c795388d01f4",
  "hris.absence_type 1 38f3a4f78f7b",
  "assessment.package 1 ead8227bdd43",
  "ats.application.event 1 2e3bfd147e0a",
  "ats.scorecard.event 1 5cadd05fb335",
  "ats.offer.event 1 db492819c721",
  "ats.tag.event 1 7f18c459bd0d",
  "ats.candidate.event 1 2b6dbcb9b6f6",
  "hris.payslip.event 1 6da294e1529d",
  "hris.performance_review.event 1 2d788d4d3217",
  "hris.performance_review_cycle.event 1 53253aef6735",
  "hris.staffing_entity.event 1 b9d664491b1b",
  "hris.legal_entity.event 1 ca26dfa58cf2",
  "hris.skill.event 1 bf311ba91376",
  "hris.absence_type.event 1 343b47fcaa3a",
  "assessment.package.event 1 8752e5b1a153",
  "progress 1 f331084bcff6"
]

describe("the published schemas", () => {
  it.each(modelNames)("accept every record of %s, whatever the configuration drops, hashes or carries", (model) => {
    const own = records.get(model) ?? []
    const [isRecordOf, isEvent] = [validatorOf(model), validatorOf(`${model}.event`)]
    assert.isAbove(own.length, 3)
    for (const processing of processings(model)) {
      for (const record of own) {
        const content = processing.apply(record)
        assert.isTrue(isRecordOf(content), `${JSON.stringify(processing.rules)} ${JSON.stringify(isRecordOf.errors)}`)
      }
      const [after = "", before = ""] = own.map((record) => JSON.stringify(processing.apply(record)))
      for (const kind of ["created", "updated", "deleted"] as const) {
        const change = entry({
          position: 1,
          model,
          kind,
          after: kind === "deleted" ? null : after,
          before: kind === "created" ? null : before
        })
        const data: unknown = JSON.parse(dataTextOf(change))
        assert.isTrue(isEvent(data), JSON.stringify(isEvent.errors))
      }
    }
  })

  it("accept a number as the value of a rating", () => {
    const valid = validatorOf("hris.performance_review")
    for (const value of [4.5, "Good", "12345678901234567890", null]) {
      assert.isTrue(valid({ id: "a", summary_rating: { type: "NUMERIC", value } }), JSON.stringify(valid.errors))
    }
    assert.isFalse(valid({ id: "a", summary_rating: { type: "NUMERIC", value: [4] } }))
  })

  it("accept unknown properties, unknown values of enumerations, and a record of which only the id is known", () => {
    const valid = validatorOf("ats.application")
    for (const record of [{ id: "a" }, { id: "a", outcome: "PAUSED", new: 1, job: { new: 2 } }]) {
      assert.isTrue(valid(record), JSON.stringify(valid.errors))
    }
    for (const record of [{}, { id: 1 }, { id: "a", job: 3 }, { id: "a", interviews: [3] }]) {
      assert.isFalse(valid(record), JSON.stringify(record))
    }
  })

  it("accept an event with properties and with values of origin, reason and transitions that a newer version adds, and no unknown kind", () => {
    const valid = validatorOf("ats.application.event")
    const more = { mood: "new" }
    const cause = { plugin: "tag", delivery: "4", depth: 1, paths: [], ...more }
    const event: JsonObject = JSON.parse(dataTextOf(entry({ position: 1, model: "ats.application" })))
    for (
      const added of [
        more,
        { origin: "stream" },
        { reason: "merged" },
        { cause },
        { changes: [{ path: "/outcome", ...more }] },
        { transitions: [{ name: "promoted", from: null, to: null, ...more }] }
      ]
    ) {
      assert.isTrue(valid({ ...event, ...added }), `${JSON.stringify(added)} ${JSON.stringify(valid.errors)}`)
    }
    for (const wrong of [{ kind: "merged" }, { origin: 1 }, { reason: false }]) {
      assert.isFalse(valid({ ...event, ...wrong }), JSON.stringify(wrong))
    }
  })

  it("have an event schema that refuses the events of another model", () => {
    const valid = validatorOf("ats.tag.event")
    assert.isTrue(valid(JSON.parse(dataTextOf(entry({ position: 1 })))))
    assert.isFalse(valid(JSON.parse(dataTextOf(entry({ position: 1, model: "ats.offer" })))))
  })

  it("describe a defined list in one document, and accept its records whatever the configuration drops inside them", () => {
    interface Unit {
      readonly name: string
      readonly below: ReadonlyArray<Unit>
    }
    const Unit = Schema.Struct({
      name: Schema.String,
      below: Schema.Array(Schema.suspend((): Schema.Codec<Unit> => Unit))
    })
    const Address = Schema.Struct({ city: Schema.String, since: Schema.Number }).annotate({ identifier: "Address" })
    const Status = Schema.Literals(["ACTIVE", "GONE"]).annotate({ identifier: "Status" })
    const list = entryOf(defineList("hris.employee", {
      path: "/hris/employees",
      schema: Schema.Struct({
        status: Schema.NullOr(Status),
        home: Address,
        offices: Schema.Array(Address),
        earlier: Schema.Array(Schema.NullOr(Address)),
        table: Schema.Array(Schema.Array(Address)),
        pair: Schema.Tuple([Address, Schema.String]),
        unit: Unit,
        hours: Schema.Number
      })
    }))
    const valid = ajv.compile(eventSchemaDocumentOf(list))
    const isRecord = ajv.compile(recordSchemaDocumentOf(list))
    const record = {
      id: "a",
      status: "PAUSED",
      home: { city: "Rome", since: 1 },
      offices: [{ since: "redacted:x", floor: 2 }],
      earlier: [null, { since: 1 }],
      table: [[{ city: "redacted:x" }]],
      pair: [{}, "x"],
      unit: { below: [{ below: [{ below: [] }] }] },
      hours: 7.5
    }
    assert.isTrue(isRecord(record), JSON.stringify(isRecord.errors))
    const event = JSON.parse(dataTextOf(entry({ position: 1, model: "hris.employee", after: JSON.stringify(record) })))
    assert.isTrue(valid(event), JSON.stringify(valid.errors))
    for (const wrong of [{ home: 1 }, { offices: [1] }, { earlier: [1] }, { table: [[1]] }, { hours: true }]) {
      assert.isFalse(isRecord({ ...record, ...wrong }), JSON.stringify(wrong))
    }
    assert.deepStrictEqual(
      recordColumnsOf(list, true).columns.map(({ name, type }) => `${name} ${type}`).slice(0, -1),
      [
        "id string",
        "status string",
        "home.city string",
        "home.since double",
        "offices json",
        "earlier json",
        "table json",
        "pair json",
        "unit json",
        "hours double"
      ]
    )
  })

  it("do not change without a new version", () => {
    const digest = (value: unknown) => createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 12)
    const contents = publishedSchemas(builtInModels).map(({ document, name, version }) =>
      `${name} ${version} ${digest(document())}`
    )
    // If this fails, raise the version of each schema that changed (`domain/SchemaId.ts`), then pin its new content here.
    assert.deepStrictEqual(contents, pinned)
  })
})
