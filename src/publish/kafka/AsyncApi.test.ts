import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import { assert, describe, it } from "vitest"
import { entry } from "../../../test/integration/publish/Entries.ts"
import { builtInModels, modelNames } from "../../domain/BuiltInModels.ts"
import { recordEntryOf } from "../../domain/Model.ts"
import type { JsonSchema } from "../RecordSchema.ts"
import { progressDataSchema } from "../SchemaDocuments.ts"
import { asyncApiOf } from "./AsyncApi.ts"
import { makeEncoder, progressMessage, stateRemoval } from "./KafkaMessage.ts"

const document = asyncApiOf({
  version: "1",
  models: builtInModels.entries,
  topic: "hr.{integration}.{model}",
  state: true
})

const progress = { integration: "i", model: "ats.tag", generation: 2, completeTo: 0, position: 1, at: 0 } as const

const refsOf = (value: unknown): ReadonlyArray<string> =>
  typeof value !== "object" || value === null ?
    [] :
    Object.entries(value).flatMap(([name, inner]) =>
      name === "$ref" && typeof inner === "string" ? [inner] : refsOf(inner)
    )

const valueAt = (pointer: string): unknown =>
  pointer.split("/").slice(1).reduce<unknown>(
    (value, name) =>
      typeof value === "object" && value !== null
        ? Object.entries(value).find(([key]) => key === name)?.[1]
        : undefined,
    document
  )

/** The titles of a schema and of those inside it. A choice of a union needs none if it is a text, a number or null. */
const titlesOf = (schema: JsonSchema, path: string, isChoice = false): ReadonlyArray<string> => {
  const { anyOf = [], items, properties = {}, title, type = "" } = schema
  if (schema["$ref"] !== undefined || Object.keys(schema).length === 0 && isChoice) return []
  const isPlain = isChoice && schema["enum"] === undefined &&
    ["string", "integer", "number", "boolean", "null"].includes(type)
  if (!isPlain) assert.isString(title, path)
  return [
    ...title === undefined ? [] : [title],
    ...anyOf.flatMap((choice, at) => titlesOf(choice, `${path}/anyOf/${at}`, true)),
    ...items === undefined ? [] : titlesOf(items, `${path}/items`),
    ...Object.entries(properties).flatMap(([name, property]) => titlesOf(property, `${path}/${name}`))
  ]
}

describe("the AsyncAPI document", () => {
  it("has an event topic and a state topic for each model, and the progress topic", () => {
    assert.strictEqual(Object.keys(document.channels).length, 2 * modelNames.length + 1)
    assert.strictEqual(document.channels["ats.tag"]?.address, "hr.{integration}.ats.tag")
    assert.strictEqual(document.channels["ats.tag.state"]?.address, "hr.{integration}.ats.tag.state")
    assert.strictEqual(document.channels["progress"]?.address, "hr._.progress")
  })

  it.each(["cloudevents", "debezium"] as const)(
    "has a title for every schema, each once, because generators name types after titles (%s)",
    (format) => {
      const options = { version: "1", models: builtInModels.entries, topic: "{model}", state: true, format }
      const { messages, schemas } = asyncApiOf(options).components
      const roots = [
        ...Object.values(messages).flatMap(({ bindings, headers }) => [headers, bindings.kafka.key]),
        ...Object.values(schemas)
      ]
      const titles = roots.flatMap((root) => titlesOf(root, ""))
      assert.isAbove(titles.length, 1000)
      assert.deepStrictEqual(titles.filter((title, at) => titles.indexOf(title) !== at), [])
      assert.includeMembers(titles, ["ApplicationInterviewsItem", "TagEventHeaders", "CandidateState", "Progress"])
    }
  )

  it("contains the target of each of its references", () => {
    const refs = refsOf(document)
    assert.isAbove(refs.length, 3 * modelNames.length)
    for (const ref of refs) assert.isDefined(valueAt(ref), ref)
  })

  it("describes the headers of every message, and requires those that every message has", () => {
    const ajv = new Ajv2020({ strict: false })
    addFormats.default(ajv)
    const identity = { store: "s", generation: 1 }
    const sent = (limit: number) =>
      [entry({ position: 1, id: "a" }), entry({ position: 2, id: "a", version: 2, kind: "deleted" })].flatMap((some) =>
        makeEncoder({ identity, models: builtInModels, topic: "{model}", state: true, limitOf: () => limit })(some)
          .messages
      )
    const messages = [
      ...sent(1_000_000),
      ...sent(600),
      stateRemoval(identity, "ats.tag.state", { integration: "greenhouse:acme", model: "ats.tag", id: "a" }, 0),
      progressMessage(identity, "{model}", { ...progress, generation: 1 })
    ]
    assert.isTrue(messages.some(({ headers }) => headers["ce_stub"] === "true"))
    for (const [name, { headers }] of Object.entries(document.components.messages)) {
      const own = messages.filter(({ topic }) => topic === name)
      if (own.length === 0) continue
      const valid = ajv.compile({ ...headers, additionalProperties: false })
      for (const message of own) assert.isTrue(valid(message.headers), `${name}: ${JSON.stringify(valid.errors)}`)
      const always = Object.keys(headers.properties).filter((header) => own.every((one) => header in one.headers))
      assert.sameMembers([...headers.required], always, name)
    }
  })

  it.each(["debezium", "connect"] as const)(
    "describes the form of %s, with stubs and tombstones, if that is configured",
    (format) => {
      const debezium = asyncApiOf({
        version: "1",
        models: [recordEntryOf(builtInModels, "ats.tag")],
        topic: "{model}",
        state: false,
        format
      })
      const ajv = new Ajv2020({ strict: false })
      addFormats.default(ajv)
      ajv.addSchema(debezium, "debezium")
      const { headers } = debezium.components.messages["ats.tag"]!
      const valid = ajv.compile({ $ref: "debezium#/components/schemas/TagEvent" })
      const validHeaders = ajv.compile({ ...headers, additionalProperties: false })
      const options = {
        identity: { store: "s", generation: 1 },
        topic: "{model}",
        state: false,
        format
      } as const
      const sent = (limit: number) =>
        [entry({ position: 1, id: "a" }), entry({ position: 2, id: "a", version: 2, kind: "deleted" })].flatMap((
          some
        ) => makeEncoder({ ...options, models: builtInModels, limitOf: () => limit })(some).messages)
      const messages = [...sent(1_000_000), ...sent(600)]
      assert.lengthOf(messages, 6)
      for (const { headers, value } of messages) {
        assert.isTrue(valid(JSON.parse(value?.toString() ?? "null")), JSON.stringify(valid.errors))
        assert.isTrue(validHeaders(headers), JSON.stringify(validHeaders.errors))
      }
      const registered = asyncApiOf({ version: "1", models: [], topic: "{model}", state: false, registered: true })
      assert.include(JSON.stringify(registered.components.messages), "the id of the schema in the registry")
    }
  )

  it("describes the values of events and of states, down to the fields of the record", () => {
    const ajv = new Ajv2020({ strict: false })
    addFormats.default(ajv)
    ajv.addSchema(document, "asyncapi")
    const validatorOf = (name: string) =>
      ajv.compile({ $ref: `asyncapi${document.components.messages[name]?.payload.$ref}` })
    const options = { identity: { store: "s", generation: 1 }, topic: "{model}", state: true, limitOf: () => 1_000_000 }
    for (
      const { topic, value } of makeEncoder({ ...options, models: builtInModels })(entry({ position: 1, id: "a" }))
        .messages
    ) {
      const valid = validatorOf(topic)
      const sent: object = JSON.parse(String(value))
      assert.isTrue(valid(sent), JSON.stringify(valid.errors))
      const broken = { id: "a", name: ["not a name"] }
      assert.isFalse(valid(topic.endsWith(".state") ? broken : { ...sent, after: broken }), topic)
    }
    assert.isTrue(validatorOf("ats.tag.state")(null))
  })

  it("describes progress messages as they are published", () => {
    const ajv = new Ajv2020({ strict: false })
    addFormats.default(ajv)
    const valid = ajv.compile(progressDataSchema)
    const { value } = progressMessage({ store: "s", generation: 2 }, "rollcall.{model}", progress)
    assert.isTrue(valid(JSON.parse(String(value))), JSON.stringify(valid.errors))
    assert.isFalse(valid({}))
  })
})
