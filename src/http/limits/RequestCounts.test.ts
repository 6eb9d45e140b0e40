import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as RequestCounts from "./RequestCounts.ts"

describe("requests that are refused because they are invalid", () => {
  it.effect("are logged at most twice a minute, with their number, and the status and the route of the last one", () => {
    const lines: Array<unknown> = []
    const logger = Logger.map(
      Logger.formatStructured,
      ({ annotations, message }) => void lines.push([message, annotations])
    )
    return Effect.gen(function*() {
      const counted = yield* RequestCounts.make
      const answer = (url: string, status: number, method = "GET") =>
        counted(Effect.succeed(HttpServerResponse.empty({ status }))).pipe(
          Effect.provideService(
            HttpServerRequest.HttpServerRequest,
            HttpServerRequest.fromWeb(new Request(`http://localhost${url}`, { method }))
          )
        )
      yield* answer("/v1/records", 400)
      for (const status of [400, 405, 413, 415, 422]) yield* answer("/v1/events", status, "POST")
      yield* answer("/Jane", 404)
      // not faults of the input, or logged elsewhere
      for (const status of [200, 303, 401, 403, 404, 409, 410, 429, 503]) yield* answer("/v1/holds/7", status)
      yield* TestClock.adjust("1 minute")
      const message = "requests were refused because they are invalid"
      assert.deepStrictEqual(lines, [
        [message, { count: 1, address: "unknown", status: 400, route: "/v1/records" }],
        [message, { count: 6, address: "unknown", status: 404, route: "none" }]
      ])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })
})
