import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { entry } from "../../../test/integration/publish/Entries.ts"
import { runs } from "../../../test/support/Runs.ts"
import { builtInModels, modelNames } from "../../domain/BuiltInModels.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import { listEntry, makeModels, recordEntryOf } from "../../domain/Model.ts"
import { type ConnectSchema, connectSchemasOf } from "./ConnectForm.ts"
import { makeEncoder } from "./KafkaMessage.ts"

const identity = { store: "k3f9a2c1", generation: 1 }
const encoded = (one: LogEntry, limit = 1_000_000) =>
  makeEncoder({
    identity,
    models: builtInModels,
    topic: "{model}",
    state: true,
    format: "connect",
    limitOf: () => limit
  })(one).messages
    .map(({ key, topic, value }) => ({ key, topic, value: value === null ? null : JSON.parse(String(value)) }))

/** What Kafka Connect's JSON converter refuses in a value; and a member that it would ignore. */
const faultsOf = (schema: ConnectSchema, value: unknown, path = ""): ReadonlyArray<string> => {
  if (value === null || value === undefined) return schema.optional ? [] : [`${path} is missing`]
  if (schema.type === "struct") {
    const fields = new Map((schema.fields ?? []).map((field) => [field.field, field]))
    if (typeof value !== "object") return [`${path} is not a struct`]
    return [
      ...Object.keys(value).filter((name) => !fields.has(name)).map((name) => `${path}.${name} is unknown`),
      ...[...fields].flatMap(([name = "", field]) => faultsOf(field, Reflect.get(value, name), `${path}.${name}`))
    ]
  }
  const isValid = schema.type === "int64" ?
    Number.isSafeInteger(value)
    : schema.type === "double" ?
    typeof value === "number"
    : typeof value === schema.type
  return isValid ? [] : [`${path} is not ${schema.type}: ${JSON.stringify(value)}`]
}

const Value = Schema.Union([
  Schema.Null,
  Schema.Literals(["text", "redacted:x", "2026-03-01T12:00:00.000Z", "2026-02-30T12:00:00Z", 3, 1.5, 1e30, true]),
  Schema.Record(Schema.Literals(["first_name", "min"]), Schema.Literals(["a", 1]))
])
const names = [
  "name",
  "remote_id",
  "changed_at",
  "candidate",
  "number_of_openings",
  "half_days_supported",
  "integration",
  "op",
  "before"
]
const Content = Schema.NullOr(Schema.Record(Schema.Literals(names), Value))
const Change = Schema.Struct({
  model: Schema.Literals(modelNames),
  kind: Schema.Literals(["created", "updated", "deleted"]),
  remoteId: Schema.NullOr(Schema.String),
  traceparent: Schema.Null,
  isLarge: Schema.Boolean,
  before: Content,
  after: Content
})
const textOf = (content: object | null) => content === null ? null : JSON.stringify({ ...content, id: "a" })

describe("the form of Kafka Connect", () => {
  it.prop("has only values that match the schema in the same message, whatever the API sends", { change: Change }, ({
    change: { after, before, isLarge, kind, ...own }
  }) => {
    const contents = { before: textOf(before), after: kind === "deleted" ? null : textOf(after ?? {}) }
    const one: LogEntry = { ...entry({ position: 1, id: "a" }), ...own, kind, ...contents }
    const [event, ...others] = encoded(one, isLarge ? 100 : 1_000_000)
    const schemas = connectSchemasOf(recordEntryOf(builtInModels, own.model))
    const key = JSON.parse(event!.key)
    assert.deepStrictEqual(key, { schema: schemas.key, payload: { integration: one.integration, id: "a" } })
    assert.deepStrictEqual(event!.value.schema, schemas.value)
    const { payload } = event!.value
    assert.deepStrictEqual(faultsOf(schemas.value, payload), [])
    assert.strictEqual(payload.before === null, kind === "created")
    assert.strictEqual(payload.after === null, kind === "deleted")
    // the tombstone has the key of the event; the state topic has the form that it has with every format
    assert.deepStrictEqual(others.map(({ key, topic }) => [topic, key]), [
      ...(kind === "deleted" ? [[own.model, event!.key]] : []),
      [`${own.model}.state`, `${one.integration}/${own.model}/a`]
    ])
  }, { arbitrary: { runs: runs(150) } })

  const payloadOf = (after: string, limit?: number) =>
    encoded({ ...entry({ position: 1, id: "a", model: "hris.staffing_entity" }), after }, limit)[0]!.value.payload

  it("has what does not fit a column as JSON in `unknown_fields`, and nested values as JSON", () => {
    const { after } = payloadOf(JSON.stringify({
      id: "a",
      name: "Clerk",
      number_of_openings: "9007199254740993",
      changed_at: "2026-02-30T12:00:00Z",
      remote_created_at: "2026-02-28T12:00:00+01:00",
      skills: [{ skill_id: "s" }],
      unheard_of: { a: 1 }
    }))
    assert.deepStrictEqual(after, {
      id: "a",
      name: "Clerk",
      remote_created_at: "2026-02-28T12:00:00+01:00",
      skills: '[{"skill_id":"s"}]',
      unknown_fields: JSON.stringify({
        number_of_openings: "9007199254740993",
        changed_at: "2026-02-30T12:00:00Z",
        unheard_of: { a: 1 }
      })
    })
  })

  it("has the columns of a list that the configuration defines, and one for a model that only the store knows", () => {
    const schema = Schema.Struct({ id: Schema.String, hours: Schema.Int }).annotate({ identifier: "Shift" })
    const models = makeModels([listEntry({ model: "hris.shift", path: "/hris/shifts", schema })])
    const encode = makeEncoder({
      identity,
      models,
      topic: "t",
      state: false,
      format: "connect",
      limitOf: () => 1_000_000
    })
    const afterOf = (model: "hris.shift" | "hris.gone") => {
      const one = { ...entry({ position: 1, id: "a", model }), after: JSON.stringify({ id: "a", hours: 8, note: "x" }) }
      return JSON.parse(String(encode(one).messages[0]!.value)).payload.after
    }
    assert.deepStrictEqual(afterOf("hris.shift"), { id: "a", hours: 8, unknown_fields: '{"note":"x"}' })
    assert.deepStrictEqual(afterOf("hris.gone"), { id: "a", unknown_fields: '{"hours":8,"note":"x"}' })
  })

  it("replaces what PostgreSQL does not store, in texts, in names and in JSON, and nothing else", () => {
    const text = String
      .raw`{"id":"a","name":"x\u0000\\u0000\ud83d\ude00\ud83d","raw\u0000":["\udE00\\\u0000"],"skills":["\uD83D\uDE00"]}`
    const { after } = payloadOf(text)
    assert.strictEqual(after.name, "x\ufffd\\u0000\u{1f600}\ufffd")
    assert.strictEqual(after.unknown_fields, JSON.stringify({ "raw\ufffd": ["\ufffd\\\ufffd"] }))
    assert.strictEqual(after.skills, '["\u{1f600}"]')
    const [event] = encoded({ ...entry({ position: 1 }), id: "a\0" })
    assert.strictEqual(JSON.parse(event!.key).payload.id, "a\ufffd")
  })

  it("has the id and the address of the event in the row of a stub", () => {
    const { after, source } = payloadOf(JSON.stringify({ id: "a", name: "x".repeat(9000) }), 9000)
    assert.strictEqual(after.id, "a")
    assert.deepStrictEqual(JSON.parse(after.unknown_fields), {
      stub: true,
      log: "/v1/events?after=k3f9a2c1-1-0&limit=1"
    })
    assert.isTrue(source.stub)
  })
})
