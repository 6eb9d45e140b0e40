import { Validator } from "@seriousme/openapi-schema-validator"
import * as OpenApi from "effect/http-api/OpenApi"
import { readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
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
  readonly responses: Readonly<Record<string, { readonly description: string }>>
}

interface Document {
  readonly info: { readonly version: string }
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description?: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const document: Document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api)))
const operations = Object.values(document.paths).flatMap((path) => Object.entries(path))

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1 and has the version of the package", async () => {
    const { errors, valid } = await new Validator().validate(JSON.parse(JSON.stringify(document)))
    assert.isTrue(valid, JSON.stringify(errors))
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"))
    assert.strictEqual(document.info.version, version)
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
    for (const [method, { operationId, responses, security }] of operations) {
      const isProbe = operationId.startsWith("health.")
      const expected = [...isProbe ? [] : ["401", "403", "429"], ...method === "post" ? ["413", "415"] : []]
      assert.includeMembers(Object.keys(responses), ["200", "400", "500", ...expected], operationId)
      assert.deepStrictEqual(security, isProbe ? [] : undefined, operationId)
    }
  })

  it("allows further properties, because later versions may add some", () => {
    assert.notInclude(JSON.stringify(document), '"additionalProperties":false')
  })

  it("describes filters of events as lists that are separated by commas", () => {
    const { parameters = [] } = document.paths["/v1/events"]?.["get"] ?? {}
    const kind = parameters.find(({ name }) => name === "kind")
    assert.deepInclude({ ...kind }, { style: "form", explode: false })
    assert.deepInclude({ ...kind?.schema }, { type: "array" })
  })
})
