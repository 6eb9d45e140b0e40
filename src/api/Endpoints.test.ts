import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { listExamples, readExamples, writeExamples } from "../../test/support/api/Examples.ts"
import { type IncrementalModel, incrementalModels, lists } from "./Lists.ts"
import { type ReadName, reads, readSchemas } from "./Reads.ts"
import { recordSchemas } from "./Records.ts"
import { toolCategories } from "./Tools.ts"
import { Authorization, UnifiedHttpApi } from "./UnifiedHttpApi.ts"
import { type WriteData, type WriteName, writeNames, writes, writeSchemas } from "./Writes.ts"

/** One request as sent over the wire, and how the server decoded and answered it. */
interface Exchange {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: string
  understood?: { readonly headers?: unknown; readonly params?: unknown; readonly payload?: unknown }
  status?: number
  answer?: unknown
}

const base = "http://unified.test/v1"
const headers = { "x-integration-id": "greenhouse:acme" }
const warnings = [{ message: "slow" }]
const success = { status: "success" as const, warnings }

/** A server made only from the contract, which answers with the examples, and a client made from the same contract. */
const wired = Effect.gen(function*() {
  const exchanges: Array<Exchange> = []
  const last = () => exchanges.at(-1) ?? assert.fail("no request was sent")
  const recorded = <A>(answer: A) => (request: NonNullable<Exchange["understood"]>) =>
    Effect.sync(() => {
      last().understood = request
      return answer
    })
  const list = <M extends IncrementalModel>(model: M) => {
    const record: (typeof recordSchemas)[M]["Type"] = Schema.decodeUnknownSync(recordSchemas[model])(
      listExamples[model]
    )
    return recorded({ ...success, data: { next: null, results: [record] } })
  }
  const read = <R extends ReadName>(name: R) => {
    const data: (typeof readSchemas)[R]["Type"] = Schema.decodeUnknownSync(readSchemas[name])(readExamples[name])
    return recorded({ ...success, data })
  }
  const write = <W extends WriteName>(name: W) => {
    const data: WriteData<W> = Schema.decodeUnknownSync(writeSchemas[name].data)(writeExamples[name].data)
    return recorded({ ...success, data })
  }
  const listHandlers = HttpApiBuilder.group(UnifiedHttpApi, "lists", (group) =>
    Effect.succeed(group.handleAll({
      "ats.application": list("ats.application"),
      "ats.scorecard": list("ats.scorecard"),
      "ats.offer": list("ats.offer"),
      "ats.tag": list("ats.tag"),
      "hris.payslip": list("hris.payslip"),
      "hris.performance_review": list("hris.performance_review"),
      "hris.performance_review_cycle": list("hris.performance_review_cycle"),
      "hris.staffing_entity": list("hris.staffing_entity"),
      "hris.legal_entity": list("hris.legal_entity"),
      "hris.skill": list("hris.skill"),
      "hris.absence_type": list("hris.absence_type")
    })))
  const readHandlers = HttpApiBuilder.group(UnifiedHttpApi, "reads", (group) =>
    Effect.succeed(group.handleAll({
      attachments: read("attachments"),
      employeeForm: read("employeeForm"),
      assessmentPackages: read("assessmentPackages"),
      tools: read("tools")
    })))
  const writeHandlers = HttpApiBuilder.group(UnifiedHttpApi, "writes", (group) =>
    Effect.succeed(group.handleAll({
      createApplication: write("createApplication"),
      addResultLink: write("addResultLink"),
      addTag: write("addTag"),
      removeTag: write("removeTag"),
      updateInterview: write("updateInterview"),
      addCandidateAttachment: write("addCandidateAttachment"),
      createEmployee: write("createEmployee"),
      uploadDocument: write("uploadDocument"),
      rateSkill: write("rateSkill"),
      expectSkill: write("expectSkill"),
      replacePackages: write("replacePackages"),
      deactivateCourse: write("deactivateCourse")
    })))
  const { dispose, handler } = HttpRouter.toWebHandler(
    HttpApiBuilder.layer(UnifiedHttpApi).pipe(
      Layer.provide([listHandlers, readHandlers, writeHandlers]),
      Layer.provide(Layer.succeed(Authorization, { key: (effect) => effect })),
      Layer.provide([HttpServer.layerServices, NodeServices.layer])
    ),
    { disableLogger: true }
  )
  yield* Effect.addFinalizer(() => Effect.promise(dispose))
  const send = async (request: Request): Promise<Response> => {
    exchanges.push({
      method: request.method,
      path: request.url.slice(base.length),
      headers: request.headers,
      body: await request.clone().text()
    })
    const stripped = new Request(request.url.replace("/v1/", "/"), request)
    const response = await handler(stripped)
    last().status = response.status
    last().answer = await response.clone().json().catch(() => undefined)
    return response
  }
  const client = yield* HttpApiClient.make(UnifiedHttpApi, {
    transformClient: HttpClient.mapRequest((request) =>
      request.pipe(HttpClientRequest.prependUrl(base), HttpClientRequest.bearerToken("key"))
    )
  }).pipe(
    Effect.provide(FetchHttpClient.layer),
    Effect.provideService(FetchHttpClient.Fetch, (input, init) => send(new Request(input, init)))
  )
  return { client, send, last }
})

type Wired = Effect.Success<typeof wired>
type Client = Wired["client"]

const call: { readonly [W in WriteName]: (client: Client) => Effect.Effect<unknown, unknown> } = {
  createApplication: (client) => client.createApplication({ headers, ...asked("createApplication") }),
  addResultLink: (client) => client.addResultLink({ headers, ...asked("addResultLink") }),
  addTag: (client) => client.addTag({ headers, ...asked("addTag") }),
  removeTag: (client) => client.removeTag({ headers, ...asked("removeTag") }),
  updateInterview: (client) => client.updateInterview({ headers, ...asked("updateInterview") }),
  addCandidateAttachment: (client) => client.addCandidateAttachment({ headers, ...asked("addCandidateAttachment") }),
  createEmployee: (client) => client.createEmployee({ headers, ...asked("createEmployee") }),
  uploadDocument: (client) => client.uploadDocument({ headers, ...asked("uploadDocument") }),
  rateSkill: (client) => client.rateSkill({ headers, ...asked("rateSkill") }),
  expectSkill: (client) => client.expectSkill({ headers, ...asked("expectSkill") }),
  replacePackages: (client) => client.replacePackages({ headers, ...asked("replacePackages") }),
  deactivateCourse: (client) => client.deactivateCourse({ headers, ...asked("deactivateCourse") })
}

const asked = <W extends WriteName>(name: W) => ({
  params: writeExamples[name].params,
  payload: writeExamples[name].body
})

const filled = (path: string, params: object): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(Reflect.get(params, name))))

describe("over the wire", () => {
  it.effect.each(incrementalModels)(
    "a full record of %s is transferred unchanged (U3)",
    (model) =>
      Effect.gen(function*() {
        const { client, last } = yield* wired
        const page = yield* client[model]({ headers, query: { page_size: 250, include_deleted: true } })
        assert.deepStrictEqual<unknown>(page.data.results, [listExamples[model]])
        const { body, method, path, status } = last()
        assert.deepStrictEqual({ body, method, path, status }, {
          body: "",
          method: "GET",
          path: `${lists[model].path}?page_size=250&include_deleted=true`,
          status: 200
        })
        assert.isNull(last().headers.get("content-type"))
      })
  )

  it.effect("the other four reads are transferred unchanged, without a content type (U3)", () =>
    Effect.gen(function*() {
      const { client, last } = yield* wired
      const sent = (data: unknown, name: ReadName, path: string) => {
        assert.deepStrictEqual(data, readExamples[name])
        assert.strictEqual(last().path, path)
        assert.isNull(last().headers.get("content-type"))
        assert.strictEqual(last().headers.get("authorization"), "Bearer key")
        const integration = last().headers.get("x-integration-id")
        assert.strictEqual(integration, reads[name].category === null ? null : headers["x-integration-id"])
      }
      const attachments = yield* client.attachments({ headers, params: { application_id: "a1" } })
      sent(attachments.data, "attachments", "/ats/applications/a1/attachments")
      const id = "5tQ2mWcXyZ7aBcDeFgHjKLMN"
      const form = yield* client.employeeForm({ headers, query: { staffing_entity_id: id } })
      sent(form.data, "employeeForm", `/hris/employees/form?staffing_entity_id=${id}`)
      const packages = yield* client.assessmentPackages({ headers })
      sent(packages.data, "assessmentPackages", "/assessment/packages")
      for (const category of toolCategories) {
        const tools = yield* client.tools({ params: { category } })
        sent(tools.data, "tools", `/tools/${category}`)
      }
    }))

  it.effect.each(writeNames)(
    "%s sends its body as JSON and returns its response (U4, U5, U6, U8)",
    (name) =>
      Effect.gen(function*() {
        const { client, last } = yield* wired
        const { body, data, params } = writeExamples[name]
        const answer = yield* call[name](client)
        const exchange = last()
        assert.strictEqual(exchange.method, writes[name].method)
        assert.strictEqual(exchange.path, filled(writes[name].path, params))
        assert.strictEqual(exchange.headers.get("content-type"), "application/json")
        assert.strictEqual(exchange.headers.get("authorization"), "Bearer key")
        assert.strictEqual(exchange.headers.get("x-integration-id"), headers["x-integration-id"])
        assert.deepStrictEqual<unknown>(JSON.parse(exchange.body), body)
        assert.deepStrictEqual<unknown>(exchange.understood?.payload, body)
        assert.deepStrictEqual<unknown>(exchange.understood?.params ?? {}, params)
        const expected = name === "updateInterview"
          ? { status: "success", data }
          : { status: "success", data, warnings }
        assert.deepStrictEqual<unknown>(exchange.answer, expected)
        assert.deepStrictEqual<unknown>(answer, expected)
      })
  )

  const invalidRequests: ReadonlyArray<
    readonly [description: string, method: string, path: string, body: string | null]
  > = [
    ["an unknown category of tools", "GET", "/tools/crm", null],
    [
      "a staffing entity id of 23 characters",
      "GET",
      "/hris/employees/form?staffing_entity_id=5tQ2mWcXyZ7aBcDeFgHjKLM",
      null
    ],
    ["page_size 0", "GET", "/ats/tags?page_size=0", null],
    ["page_size 251", "GET", "/ats/tags?page_size=251", null],
    ["an updated_after with an offset", "GET", "/ats/tags?updated_after=2024-05-01T10:00:00%2B02:00", null],
    ["a tag that is a string", "DELETE", "/ats/candidates/c1/tags", '{"tag":"Excellent"}'],
    ["a DELETE without body", "DELETE", "/ats/candidates/c1/tags", null],
    ["a body that is not JSON", "POST", "/ats/candidates/c1/tags", "tag=Excellent"],
    ["a body that is an array", "POST", "/lms/courses/c1/deactivate", "[]"],
    ["a course that is only `remote:`", "POST", "/lms/courses/remote:/deactivate", "{}"]
  ]
  it.effect.each(invalidRequests)(
    "a server of the contract rejects %s (U26)",
    ([, method, path, body]) =>
      Effect.gen(function*() {
        const { last, send } = yield* wired
        const json = { headers: { ...headers, "content-type": "application/json" }, body }
        const init: RequestInit = body === null ? { method, headers } : { method, ...json }
        yield* Effect.promise(() => send(new Request(base + path, init)))
        assert.strictEqual(last().status, 400)
        assert.isUndefined(last().understood)
      })
  )

  it.effect("a server of the contract rejects a request without the integration header (U26)", () =>
    Effect.gen(function*() {
      const { last, send } = yield* wired
      yield* Effect.promise(() => send(new Request(`${base}/ats/tags`)))
      assert.strictEqual(last().status, 400)
      yield* Effect.promise(() => send(new Request(`${base}/tools/ats`)))
      assert.strictEqual(last().status, 200)
    }))
})
