import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { incrementalModels, lists } from "../../../src/api/Lists.ts"
import { CommaList, sharedQuery, UnifiedHttpApi, UpdatedAfter } from "../../../src/api/UnifiedHttpApi.ts"

const document = OpenApi.fromApi(UnifiedHttpApi)
const parametersOf = (path: string) => document.paths[path]?.get?.parameters ?? []
const parameter = (path: string, name: string) => parametersOf(path).find((each) => each.name === name)

describe("the OpenAPI document", () => {
  it("has exactly the eleven lists, each with a bearer key and the integration header", () => {
    assert.deepStrictEqual(
      Object.keys(document.paths).sort(),
      incrementalModels.map((model) => lists[model].path as string).sort()
    )
    for (const path of Object.keys(document.paths)) {
      assert.deepStrictEqual(document.paths[path]?.get?.security, [{ key: [] }])
      assert.isTrue(parameter(path, "x-integration-id")?.required)
    }
    assert.strictEqual(document.components.securitySchemes["key"]?.type, "http")
  })

  it("gives every list the shared parameters and its own filters", () => {
    for (const model of incrementalModels) {
      const names = parametersOf(lists[model].path).filter(({ in: place }) => place === "query").map(({ name }) => name)
      assert.deepStrictEqual(names, [...Object.keys(sharedQuery), ...lists[model].filters])
    }
  })

  it("says what the parameters' text must be, and that `outcome` is deprecated", () => {
    const path = lists["ats.application"].path
    assert.deepStrictEqual(parameter(path, "page_size")?.schema, {
      type: "integer",
      minimum: 1,
      maximum: 250,
      default: 100
    })
    assert.property(parameter(path, "updated_after")?.schema, "pattern")
    assert.propertyVal(parameter(path, "ids")?.schema, "type", "array")
    assert.propertyVal(parameter(path, "outcome"), "deprecated", true)
  })

  it("closes no object: further fields are no fault", () => {
    assert.notInclude(JSON.stringify(document), '"additionalProperties":false')
  })
})

describe("query parameters", () => {
  const accepts = (schema: Schema.Codec<unknown, unknown>) => (value: unknown) =>
    Schema.decodeUnknownOption(schema)(value)._tag === "Some"

  it("updated_after takes dates and times in UTC, with any fraction, and nothing else", () => {
    const fits = accepts(UpdatedAfter)
    for (
      const value of [
        "2024-05-01",
        "2024-05-01Z",
        "2024-05-01T10:00:00",
        "2024-05-01T10:00:00Z",
        "2024-05-01T10:00:00.1Z",
        "2024-05-01T10:00:00.123456Z"
      ]
    ) assert.isTrue(fits(value), value)
    for (
      const value of [
        "",
        "yesterday",
        "1714557600",
        "2024-5-1",
        "2024-05-01T10:00Z",
        "2024-05-01 10:00:00",
        "2024-05-01T10:00:00+02:00",
        "2024-05-01T10:00:00Z ",
        "x2024-05-01"
      ]
    ) assert.isFalse(fits(value), value)
  })

  it("page_size is a whole number from 1 to 250", () => {
    const fits = accepts(sharedQuery.page_size)
    for (const value of ["1", "100", "250"]) assert.isTrue(fits(value), value)
    for (const value of ["0", "251", "1.5", "-1", "many", ""]) assert.isFalse(fits(value), value)
  })

  it("flags are `true` or `false`", () => {
    assert.isTrue(Schema.decodeUnknownSync(sharedQuery.include_deleted)("true"))
    assert.isFalse(Schema.decodeUnknownSync(sharedQuery.include_deleted)("false"))
    assert.isFalse(accepts(sharedQuery.include_deleted)("1"))
  })

  it("an empty comma list means all", () => {
    assert.deepStrictEqual(Schema.decodeUnknownSync(CommaList)(""), [])
    assert.deepStrictEqual(Schema.decodeUnknownSync(CommaList)("a,b,,c"), ["a", "b", "c"])
  })

  it.effect.prop(
    "ids without commas survive the way there and back",
    [Schema.Array(Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{1,24}$/)))],
    ([ids]) =>
      Effect.sync(() =>
        assert.deepStrictEqual(Schema.decodeUnknownSync(CommaList)(Schema.encodeUnknownSync(CommaList)(ids)), ids)
      )
  )
})
