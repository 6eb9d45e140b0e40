import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { request } from "node:http"
import * as Server from "../../../src/http/Server.ts"
import * as Running from "./Running.ts"

const { json, readToken, send, token, using } = Running

const bearer = { authorization: `Bearer ${token}` }

/** The labels and the value of each series of the counter, without those of requests for the metrics. */
const counted = Effect.map(
  send("GET", "/metrics", bearer),
  ({ text }) =>
    [...text.matchAll(/^rollcall_http_requests_total\{(.*)\} (\d+)$/gm)]
      .map(([, labels = "", value]) => {
        const of = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(labels)?.[1]
        return `${of("method")} ${of("route")} ${of("status")} ${of("right")}: ${value}`
      })
      .filter((line) => !line.includes("/metrics"))
      .toSorted()
)

const fresh = Effect.provideService(Metric.MetricRegistry, new Map())

describe("every request", () => {
  it.live("is counted by method, route, status and right, without ids", () =>
    Effect.gen(function*() {
      yield* Running.stream()
      for (
        const [method, path, headers] of [
          ["GET", "/v1/events?limit=1", { authorization: `Bearer ${readToken}` }],
          ["GET", "/v1/events?limit=2", { authorization: `Bearer ${readToken}` }],
          ["GET", "/v1/events?limit=x", bearer],
          ["GET", "/v1/events", {}],
          ["POST", "/v1/holds/7/reject", { ...bearer, ...json }],
          ["POST", "/v1/holds/7/reject", { authorization: `Bearer ${readToken}`, ...json }],
          ["GET", "/v1/streams/greenhouse:acme/ats.tag", bearer],
          ["GET", "/v1/streams/Jane%20Doe/ats.tag", bearer],
          ["GET", "/Jane/Doe", bearer],
          ["PUT", "/v1/events", bearer],
          ["DELETE", "/v1/sessions/x", bearer],
          ["DELETE", "/v1/sessions", bearer],
          ["GET", "/health/live", {}],
          ["GET", "/login", {}],
          ["POST", "/logout", json]
        ] as const
      ) {
        yield* send(method, path, headers)
      }
      assert.deepStrictEqual(yield* counted, [
        "DELETE /v1/sessions 200 operate: 1",
        "DELETE /v1/sessions/:id 404 operate: 1",
        "GET /health/live 200 none: 1",
        "GET /login 200 none: 1",
        "GET /v1/events 200 read: 2",
        "GET /v1/events 400 operate: 1",
        "GET /v1/events 401 none: 1",
        "GET /v1/streams/:integration/:model 200 operate: 1",
        "GET /v1/streams/:integration/:model 404 operate: 1",
        "GET none 404 operate: 1",
        "POST /logout 303 none: 1",
        "POST /v1/holds/:id/reject 403 none: 1",
        "POST /v1/holds/:id/reject 404 operate: 1",
        "other /v1/events 405 operate: 1"
      ])
    }).pipe(using({ token, readToken }), fresh))

  it.live("is counted even if its client disconnects before the response", () =>
    Effect.gen(function*() {
      const { url } = yield* Server.Server
      const path = "/v1/integrations"
      yield* Effect.promise(async () => {
        const sent = request(`${url}${path}`, { method: "POST", headers: { ...bearer, ...json }, agent: false })
        const ended = new Promise((resolve) => sent.on("error", resolve))
        sent.write("{")
        await new Promise((resolve) => sent.once("socket", (socket) => socket.once("connect", resolve)))
        // the server has the headers when it answers another request
        await fetch(`${url}/health/live`)
        sent.destroy()
        await ended
      })
      let lines = yield* counted
      while (!lines.some((line) => line.includes(path))) lines = yield* counted
      assert.include(lines, "POST /v1/integrations closed operate: 1")
    }).pipe(using({ token }), fresh))
})

describe("invalid requests", () => {
  it.live("are logged once, and then summed up, with the route and the status of the last one", () => {
    const lines: Array<unknown> = []
    const logger = Logger.map(
      Logger.formatStructured,
      ({ annotations, message }) => void lines.push([message, annotations])
    )
    return Effect.gen(function*() {
      const large = "x".repeat(70_000)
      yield* send("GET", "/v1/events?limit=Jane", bearer)
      yield* send("GET", "/Jane/Doe", bearer)
      yield* send("POST", "/v1/integrations", bearer)
      yield* send("POST", "/v1/integrations", { ...bearer, ...json, "content-length": "70000" }, large)
      yield* send("GET", "/v1/holds/7", bearer)
      assert.deepStrictEqual(lines.filter((line) => JSON.stringify(line).includes("invalid")), [[
        "requests were refused because they are invalid",
        { count: 1, address: "127.0.0.1", status: 400, route: "/v1/events" }
      ]])
      assert.notInclude(JSON.stringify(lines), "Jane")
    }).pipe(using({ token }), Effect.provide(Logger.layer([logger])))
  })
})
