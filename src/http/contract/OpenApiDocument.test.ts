import { Validator } from "@seriousme/openapi-schema-validator"
import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as OpenApi from "effect/http-api/OpenApi"
import { readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import { entry } from "../../../test/integration/publish/Entries.ts"
import { typeNamesOf } from "../../config/ListSettings.ts"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { cloudEventTextOf } from "../../domain/ChangeEvent.ts"
import { asyncApiOf } from "../../publish/kafka/AsyncApi.ts"
import { Api } from "./Api.ts"

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags: ReadonlyArray<string>
  readonly security?: ReadonlyArray<object>
  readonly parameters: ReadonlyArray<
    {
      readonly name: string
      readonly description?: string
      readonly schema: object
      readonly style?: string
      readonly explode?: boolean
    }
  >
  readonly responses: Readonly<
    Record<
      string,
      { readonly description: string; readonly content?: Readonly<Record<string, { readonly schema: object }>> }
    >
  >
}

interface Document {
  readonly info: { readonly version: string; readonly description: string }
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description?: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, object>> }
}

const document: Document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api)))
const operations = Object.values(document.paths).flatMap((path) => Object.entries(path))

const ajv = new Ajv2020({ strict: false })
addFormats.default(ajv)
ajv.addFormat("int64", { type: "number", validate: Number.isSafeInteger })
ajv.addSchema(document, "openapi")
const validatorOf = (name: string) => ajv.compile({ $ref: `openapi#/components/schemas/${name}` })

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1 and has the version of the package", async () => {
    const { errors, valid } = await new Validator().validate(JSON.parse(JSON.stringify(document)))
    assert.isTrue(valid, JSON.stringify(errors))
    const { version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"))
    assert.strictEqual(document.info.version, version)
  })

  it("has an introduction, and names that a person would choose", () => {
    assert.isAbove(document.info.description.length, 500)
    for (const { name } of document.tags) assert.match(name, /^[A-Z][a-z]+( [a-z]+)?$/)
    for (const [, { operationId, tags }] of operations) {
      assert.match(operationId, /^[a-z]+([A-Z][a-z]+)+$/)
      assert.lengthOf(tags, 1, operationId)
    }
    for (const name of Object.keys(document.components.schemas)) assert.match(name, /^([A-Z][a-z]+)+$/)
  })

  it("has a summary, a description and a described tag for each operation", () => {
    const described = new Set(
      document.tags.filter(({ description }) => description !== undefined).map(({ name }) => name)
    )
    assert.isAbove(operations.length, 30)
    for (const [, { description, operationId, summary, tags }] of operations) {
      assert.isNotEmpty(summary, operationId)
      assert.isNotEmpty(description, operationId)
      for (const tag of tags) assert.isTrue(described.has(tag), tag)
    }
  })

  it("has a description and one schema for each parameter", () => {
    for (const [, { operationId, parameters }] of operations) {
      for (const { description, name, schema } of parameters) {
        assert.isNotEmpty(description, `${operationId} ${name}`)
        assert.isObject(schema, `${operationId} ${name}`)
      }
    }
  })

  it("has the problems that a request can get before its endpoint, and probes need no token", () => {
    for (const [method, { operationId, responses, security, tags }] of operations) {
      const isProbe = tags.includes("Health")
      const expected = [...isProbe ? [] : ["401", "403", "429", "503"], ...method === "post" ? ["413", "415"] : []]
      assert.includeMembers(Object.keys(responses), ["200", "400", "500", ...expected], operationId)
      assert.deepStrictEqual(security, isProbe ? [] : undefined, operationId)
    }
  })

  it("allows a kind of problem that it does not name in every refusal", () => {
    for (const [, { operationId, responses }] of operations) {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        if (status !== "200") assert.include(JSON.stringify(content), "schemas/Problem", `${operationId} ${status}`)
      }
    }
  })

  it("allows further properties, because later versions may add some", () => {
    assert.notInclude(JSON.stringify(document), '"additionalProperties":false')
  })

  it("has numbers only, whole ones with 64 bits, because JSON has no other values", () => {
    const text = JSON.stringify(document)
    assert.notInclude(text, "Infinity")
    assert.notInclude(text, String(Number.MAX_SAFE_INTEGER))
    assert.include(
      JSON.stringify(document.components.schemas["Stream"]),
      '"records_live":{"type":"integer","format":"int64"}'
    )
  })

  it("describes the document and the stream of a response that the request chooses", () => {
    for (const path of ["/v1/events", "/v1/overview"]) {
      const { content = {}, description } = document.paths[path]?.["get"]?.responses["200"] ?? {}
      assert.include(description, "Accept: text/event-stream")
      assert.match(JSON.stringify(content["application/json"]), /schemas\/(EventPage|Overview)"/)
      assert.match(JSON.stringify(content["text/event-stream"]), /Server-sent events.*data.*"example"/)
      assert.isFalse(document.paths[path]?.["get"]?.parameters.some(({ name }) => name === "accept"))
    }
  })

  it("types events, records and the content of changes for each model", () => {
    const [event, record, content] = ["Event", "CurrentRecord", "ChangeContent"].map(validatorOf)
    const shown = JSON.parse(cloudEventTextOf({ store: "s", generation: 1 }, entry({ position: 1, id: "a" })))
    const { id, integration, model } = shown.data
    const current = { integration, model, id, generation: 1, version: 1, after: shown.data.after }
    const revealed = { model, before: null, after: shown.data.after, changes: [], transitions: [] }
    const other = { id: "a", name: ["not a name"] }
    const cases = [
      [event, shown, { ...shown, data: { ...shown.data, after: other } }],
      [event, shown, { ...shown, model: "ats.offer" }],
      [record, current, { ...current, after: other }],
      [content, revealed, { ...revealed, before: other }]
    ] as const
    for (const [valid, right, wrong] of cases) {
      assert.isTrue(valid?.(right), JSON.stringify(valid?.errors))
      assert.isFalse(valid?.(wrong), JSON.stringify(wrong))
    }
  })

  it("describes filters of events as lists that are separated by commas", () => {
    const { parameters = [] } = document.paths["/v1/events"]?.["get"] ?? {}
    const kind = parameters.find(({ name }) => name === "kind")
    assert.deepInclude({ ...kind }, { style: "form", explode: false })
    assert.deepInclude({ ...kind?.schema }, { type: "array" })
  })

  it("and the document of Kafka have no schema of a model whose name another list may have", () => {
    const options = { version: "1", models: builtInModels.entries, topic: "{model}", state: true }
    const forms = [{}, { format: "debezium" as const }].map((form) => asyncApiOf({ ...options, ...form }))
    const documents: ReadonlyArray<Pick<Document, "components">> = JSON.parse(JSON.stringify([document, ...forms]))
    const names = documents.flatMap(({ components }) => Object.keys(components.schemas))
    const own = names.filter((name) => name.startsWith("Payslip"))
    assert.includeMembers([...typeNamesOf("Payslip")], own)
    assert.includeMembers(own, ["PayslipEvent", "PayslipEventData", "PayslipState"])
  })
})
