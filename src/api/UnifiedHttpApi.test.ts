import { assert, describe, it } from "@effect/vitest"
import { Validator } from "@seriousme/openapi-schema-validator"
import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { StaffingEntityId } from "./Forms.ts"
import { incrementalModels, lists } from "./Lists.ts"
import { type EndpointName, permissions } from "./Permissions.ts"
import { type ReadName, reads } from "./Reads.ts"
import { CommaList, sharedQuery, UnifiedHttpApi, UpdatedAfter } from "./UnifiedHttpApi.ts"
import { writeNames, writes } from "./Writes.ts"

const document = OpenApi.fromApi(UnifiedHttpApi)
const methods = ["get", "post", "put", "patch", "delete"] as const
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  methods.flatMap((method) => {
    const operation = item[method]
    return operation === undefined ? [] : [{ method: method.toUpperCase(), path, operation }]
  })
)
const operation = (name: EndpointName) =>
  operations.find((each) => each.operation.operationId === name) ?? assert.fail(`no operation is called ${name}`)
const parametersOf = (name: EndpointName) => operation(name).operation.parameters
const parameter = (name: EndpointName, called: string) => parametersOf(name).find((each) => each.name === called)

describe("the OpenAPI document", () => {
  it("has exactly the 27 endpoints of the tables, each with its own operation id (U1)", () => {
    const endpoints = operations.map(({ method, operation, path }) => [operation.operationId, method, path])
    const expected = [
      ...incrementalModels.map((model) => [model, "GET", lists[model].path]),
      ...(Object.keys(reads) as ReadonlyArray<ReadName>).map((name) => [name, "GET", reads[name].path]),
      ...writeNames.map((name) => [name, writes[name].method, writes[name].path])
    ]
    assert.deepStrictEqual(endpoints.map(String).sort(), expected.map(String).sort())
    assert.strictEqual(new Set(endpoints.map(([id]) => id)).size, 27)
  })

  it("is valid OpenAPI 3.1 (U1)", async () => {
    const validator = new Validator()
    const { errors, valid } = await validator.validate(JSON.parse(JSON.stringify(document)))
    assert.isTrue(valid, JSON.stringify(errors))
    assert.strictEqual(validator.version, "3.1")
  })

  it("describes every operation, parameter and response (U1)", () => {
    for (const { operation } of operations) {
      assert.isNotEmpty(operation.summary, operation.operationId)
      for (const { description, name } of operation.parameters) assert.isNotEmpty(description, name)
      for (const [status, { description }] of Object.entries(operation.responses)) {
        assert.notInclude(["", "Success", "Error"], description, status)
      }
    }
    assert.include(operation("ats.offer").operation.description, "does not react to changes of `application.candidate`")
  })

  it("requires the key for every endpoint, and the integration header for every endpoint except the tools (U2)", () => {
    for (const { operation } of operations) {
      assert.deepStrictEqual(operation.security, [{ key: [] }])
      const header = operation.parameters.find(({ name }) => name === "x-integration-id")
      assert.strictEqual(header?.required, operation.operationId === "tools" ? undefined : true)
    }
    assert.strictEqual(document.components.securitySchemes["key"]?.type, "http")
  })

  it("has a JSON body for every write and for no other endpoint (U4)", () => {
    for (const { operation } of operations) {
      const content = operation.requestBody?.content
      const isWrite = (writeNames as ReadonlyArray<string>).includes(operation.operationId)
      assert.deepStrictEqual(content && Object.keys(content), isWrite ? ["application/json"] : undefined)
    }
  })

  it("has the shared parameters and the list's own filters for every list (U27)", () => {
    for (const model of incrementalModels) {
      const names = parametersOf(model).filter(({ in: place }) => place === "query").map(({ name }) => name)
      assert.deepStrictEqual(names, [...Object.keys(sharedQuery), ...lists[model].filters])
    }
  })

  it("describes the format of the parameters (U27)", () => {
    assert.deepStrictEqual(parameter("ats.application", "page_size")?.schema, {
      type: "integer",
      minimum: 1,
      maximum: 250,
      default: 100
    })
    const pattern = (name: EndpointName, called: string) =>
      new RegExp(String(Reflect.get(parameter(name, called)?.schema ?? {}, "pattern")), "u")
    assert.match("2024-05-01T10:00:00.1Z", pattern("ats.application", "updated_after"))
    assert.notMatch("2024-05-01T10:00Z", pattern("ats.application", "updated_after"))
    assert.match("greenhouse:acme", pattern("addTag", "x-integration-id"))
    assert.notMatch("greenhouse", pattern("addTag", "x-integration-id"))
    assert.match("5tQ2mWcXyZ7aBcDeFgHjKLMN", pattern("employeeForm", "staffing_entity_id"))
    assert.notMatch("5tQ2mWcXyZ7aBcDeFgHjKLM", pattern("employeeForm", "staffing_entity_id"))
    assert.notMatch("remote:", pattern("deactivateCourse", "course_id"))
    assert.deepStrictEqual(parameter("ats.application", "outcomes")?.schema, {
      type: "array",
      items: { type: "string", enum: ["PENDING", "HIRED", "DECLINED"] }
    })
    assert.propertyVal(parameter("ats.application", "ids")?.schema, "type", "array")
    assert.deepStrictEqual(parameter("tools", "category")?.schema, {
      type: "string",
      enum: ["hris", "ats", "assessment", "lms"]
    })
  })

  it("marks only the candidate's attachment and the filter `outcome` as deprecated (U9)", () => {
    const deprecated = operations.filter(({ operation }) => operation.deprecated === true)
    assert.deepStrictEqual(deprecated.map(({ operation }) => operation.operationId), ["addCandidateAttachment"])
    assert.propertyVal(parameter("ats.application", "outcome"), "deprecated", true)
    assert.notProperty(parameter("ats.application", "outcomes"), "deprecated")
  })

  it("marks only the interviews as closed beta; their response alone has no warnings (U8)", () => {
    const beta = operations.filter(({ operation }) => Reflect.get(operation, "x-beta") === true)
    assert.deepStrictEqual(beta.map(({ operation }) => operation.operationId), ["updateInterview"])
    const withoutWarnings = operations.filter(({ operation }) => !JSON.stringify(operation).includes('"warnings"'))
    assert.deepStrictEqual(withoutWarnings.map(({ operation }) => operation.operationId), ["updateInterview"])
  })

  it("names the permission of every endpoint for which the specification states one (U15)", () => {
    const named = operations.flatMap(({ operation }) => {
      const permission: unknown = Reflect.get(operation, "x-permission")
      return permission === undefined ? [] : [[operation.operationId, permission]]
    })
    assert.deepStrictEqual(Object.fromEntries(named), {
      attachments: "Read document attachments",
      addTag: "Manage tags",
      removeTag: "Manage tags",
      addCandidateAttachment: "Add attachments",
      createEmployee: "Create and manage employees",
      uploadDocument: "Manage documents",
      rateSkill: "Manage employee skill proficiency ratings",
      deactivateCourse: "Upsert courses"
    })
    for (const { operation } of operations) {
      const permission = permissions[operation.operationId as EndpointName]
      assert.strictEqual(permission, Reflect.get(operation, "x-permission") ?? null)
    }
    assert.strictEqual(Object.keys(permissions).length, 27)
  })

  it("documents the error responses, the two about bodies only for endpoints with a body (U26)", () => {
    const usual = ["400", "401", "403", "404", "409", "429", "500", "502", "503", "504"]
    for (const { operation } of operations) {
      const refusals = Object.keys(operation.responses).filter((status) => status !== "200").sort()
      const expected = operation.requestBody === undefined ? usual : [...usual, "413", "415"].sort()
      assert.deepStrictEqual(refusals, expected, operation.operationId)
    }
  })

  it("allows additional fields in every object (U18)", () => {
    assert.notInclude(JSON.stringify(document), '"additionalProperties":false')
  })
})

describe("query parameters", () => {
  const accepts = (schema: Schema.Codec<unknown, unknown>) => (value: unknown) =>
    Schema.decodeUnknownOption(schema)(value)._tag === "Some"

  it("updated_after accepts only dates and times in UTC, with any fraction (U10)", () => {
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

  it("page_size is a whole number from 1 to 250 (U11)", () => {
    const fits = accepts(sharedQuery.page_size)
    for (const value of ["1", "100", "250"]) assert.isTrue(fits(value), value)
    for (const value of ["0", "251", "1.5", "-1", "many", ""]) assert.isFalse(fits(value), value)
  })

  it("flags are `true` or `false` (U13)", () => {
    assert.isTrue(Schema.decodeUnknownSync(sharedQuery.include_deleted)("true"))
    assert.isFalse(Schema.decodeUnknownSync(sharedQuery.include_deleted)("false"))
    assert.isFalse(accepts(sharedQuery.include_deleted)("1"))
  })

  it("an empty comma list means all (U12)", () => {
    assert.deepStrictEqual(Schema.decodeUnknownSync(CommaList)(""), [])
    assert.deepStrictEqual(Schema.decodeUnknownSync(CommaList)("a,b,,c"), ["a", "b", "c"])
  })

  it.effect.prop(
    "ids without commas are unchanged after encoding and decoding (U12)",
    [Schema.Array(Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{1,24}$/)))],
    ([ids]) =>
      Effect.sync(() =>
        assert.deepStrictEqual(Schema.decodeUnknownSync(CommaList)(Schema.encodeUnknownSync(CommaList)(ids)), ids)
      )
  )

  it("a staffing entity id has 24 base58 characters (U14)", () => {
    const fits = accepts(StaffingEntityId)
    assert.isTrue(fits("5tQ2mWcXyZ7aBcDeFgHjKLMN"))
    for (const wrong of ["0", "O", "I", "l", "-", " ", "é"]) {
      assert.isFalse(fits(`5tQ2mWcXyZ7aBcDeFgHjKLM${wrong}`), wrong)
    }
    for (const length of [0, 1, 23, 25, 48]) assert.isFalse(fits("a".repeat(length)), String(length))
    assert.isFalse(fits(`${"a".repeat(24)}\n`))
  })
})
