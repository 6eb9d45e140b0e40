/** The exact requests to the other 16 endpoints over a real connection. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "node:stream/consumers"
import type { ReadName } from "../../../src/api/Reads.ts"
import { toolCategories } from "../../../src/api/Tools.ts"
import { type WriteName, writeNames, writes } from "../../../src/api/Writes.ts"
import { type ReadRequest, Source } from "../../../src/source/Source.ts"
import { readExamples, writeExamples } from "../../support/api/Examples.ts"
import { noHooks } from "../../support/source/Doubles.ts"
import { requests } from "../../support/source/Requests.ts"
import { account, clientOf, json, Loopback } from "./Loopback.ts"

interface Received {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/** A server that answers every request with this data and records the requests. */
const answering = Effect.fnUntraced(function*(data: unknown) {
  const received: Array<Received> = []
  const server = yield* Loopback.serving((request, response) => {
    void Stream.text(request).then((body) => {
      received.push({ method: request.method, url: request.url, headers: request.headers, body })
      json(response, JSON.stringify({ status: "success", data }))
    })
  })
  const layer = clientOf(server.url, { accounts: { eu: account(server.url) } })
  return { layer, received }
})

const paths: Record<WriteName, string> = {
  createApplication: "POST /v1/ats/jobs/j1/applications",
  addResultLink: "POST /v1/ats/applications/a1/result-links",
  addTag: "POST /v1/ats/candidates/c1/tags",
  removeTag: "DELETE /v1/ats/candidates/c1/tags",
  updateInterview: "PATCH /v1/ats/applications/a1/interviews",
  addCandidateAttachment: "POST /v1/ats/candidates/c1/attachments",
  createEmployee: "POST /v1/hris/employees/form",
  uploadDocument: "POST /v1/hris/employees/e1/documents",
  rateSkill: "POST /v1/hris/skill-proficiency-ratings",
  expectSkill: "POST /v1/hris/staffing-entities/se1/skills",
  replacePackages: "PUT /v1/assessment/packages",
  deactivateCourse: "POST /v1/lms/courses/remote%3A42%2Fb/deactivate"
}

describe("a write over a real connection", () => {
  it.live.each(writeNames)(
    "%s sends its body, key and integration, and returns the response (U4, U5)",
    (name) =>
      Effect.gen(function*() {
        const { layer, received } = yield* answering(writeExamples[name].data)
        const source = yield* Effect.provide(Source, layer)
        assert.deepStrictEqual<unknown>(yield* source.write(requests[name], noHooks), writeExamples[name].data)
        const [only, ...others] = received
        assert.deepStrictEqual(others, [])
        assert.strictEqual(`${only?.method} ${only?.url}`, paths[name])
        assert.strictEqual(only?.method, writes[name].method)
        assert.deepInclude(only?.headers, {
          "authorization": "Bearer the-key",
          "x-integration-id": "greenhouse:acme",
          "content-type": "application/json"
        })
        assert.deepStrictEqual(JSON.parse(only?.body ?? ""), writeExamples[name].body)
      })
  )

  it.live("deactivating a course sends an empty object (U6)", () =>
    Effect.gen(function*() {
      const { layer, received } = yield* answering(writeExamples.deactivateCourse.data)
      const source = yield* Effect.provide(Source, layer)
      yield* source.write(requests.deactivateCourse, noHooks)
      assert.strictEqual(received[0]?.body, "{}")
    }))
})

describe("a read over a real connection", () => {
  const of = { account: "eu", integration: "greenhouse:acme", priority: "write" } as const
  const read = <R extends ReadName>(request: ReadRequest<R>, path: string) =>
    Effect.gen(function*() {
      const { layer, received } = yield* answering(readExamples[request.read])
      const source = yield* Effect.provide(Source, layer)
      assert.deepStrictEqual<unknown>(yield* source.read(request), readExamples[request.read])
      const [only] = received
      assert.strictEqual(`${only?.method} ${only?.url}`, `GET ${path}`)
      assert.strictEqual(only?.headers["authorization"], "Bearer the-key")
      assert.strictEqual(only?.headers["x-integration-id"], request.integration ?? undefined)
      assert.notProperty(only?.headers, "content-type")
      assert.strictEqual(only?.body, "")
    })

  it.live("returns attachments (U3)", () =>
    read({ ...of, read: "attachments", params: { application_id: "a/1" } }, "/v1/ats/applications/a%2F1/attachments"))

  it.live("returns the employee form, with and without a staffing entity (U14)", () =>
    Effect.gen(function*() {
      yield* read({ ...of, read: "employeeForm", params: {} }, "/v1/hris/employees/form")
      const staffing_entity_id = "5tQ2mWcXyZ7aBcDeFgHjKLMN"
      yield* read(
        { ...of, read: "employeeForm", params: { staffing_entity_id } },
        `/v1/hris/employees/form?staffing_entity_id=${staffing_entity_id}`
      )
    }))

  it.live("returns assessment packages (U3)", () =>
    read({ ...of, read: "assessmentPackages", params: {} }, "/v1/assessment/packages"))

  it.live.each(toolCategories)(
    "returns the %s tools, which belong to the account, without the integration header (U2)",
    (category) => read({ ...of, integration: null, read: "tools", params: { category } }, `/v1/tools/${category}`)
  )
})
