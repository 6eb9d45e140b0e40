import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { readFileSync } from "node:fs"
import { Api } from "../contract/Api.ts"
import * as Tag from "../contract/ReadAudit.ts"
import * as ReadAudit from "./ReadAudit.ts"
import { type Named, ReadLog } from "./ReadLog.ts"

const endpoints = Object.values(Api.groups).flatMap(({ endpoints }) => Object.values(endpoints))

/** Sends a request through the middleware to a handler with this response; returns what it notes meanwhile. */
const noted = Effect.fnUntraced(function*(
  path: string,
  url: string,
  response: HttpServerResponse.HttpServerResponse,
  params: Record<string, string> = {}
) {
  const notes: Array<readonly [string, Named]> = []
  const log = ReadLog.of({
    noteRead: (route, named) => Effect.sync(() => void notes.push([route, named]))
  })
  const endpoint = endpoints.find((one) => one.path === path)!
  const answered = yield* Effect.gen(function*() {
    const middleware = yield* Tag.ReadAudit
    return yield* (middleware as Function)(Effect.succeed(response), {
      endpoint
    }) as Effect.Effect<HttpServerResponse.HttpServerResponse>
  }).pipe(
    Effect.provide(ReadAudit.layer.pipe(Layer.provide(Layer.succeed(ReadLog, log)))),
    Effect.provideService(
      HttpServerRequest.HttpServerRequest,
      HttpServerRequest.fromWeb(new Request(`http://localhost${url}`))
    ),
    Effect.provideService(
      HttpServerRequest.ParsedSearchParams,
      // the router takes `;` for the start of the query, too
      HttpServerRequest.searchParamsFromURL(new URL(url.replace(/[;?]/, "?"), "http://localhost"))
    ),
    Effect.provideService(HttpRouter.RouteContext, { params, route: {} as never })
  )
  return { answered, notes }
})

describe("the audit of reads", () => {
  it("covers the routes that the security page lists", () => {
    const shown = endpoints.filter(({ annotations }) => Context.get(annotations, Tag.ShowsRecords))
      .map(({ method, path }) => `\`${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}\``)
    const page = readFileSync(new URL("../../../docs/security.md", import.meta.url), "utf8")
    const [, list = ""] = /^Routes that show records: (.*?)\.$/ms.exec(page) ?? []
    assert.sameMembers(list.split(/,\s+/), shown)
  })

  it.effect("notes the stream that a request names, in the path or once in the query", () =>
    Effect.gen(function*() {
      const response = HttpServerResponse.text("[]")
      const named = (path: string, url: string, params?: Record<string, string>) =>
        Effect.map(noted(path, url, response, params), ({ notes }) => notes)
      assert.deepStrictEqual(yield* named("/v1/events", "/v1/events?model=ats.tag,ats.tag&integration=a:1"), [
        ["/v1/events", { integration: "a:1", model: "ats.tag" }]
      ])
      assert.deepStrictEqual(
        yield* named("/v1/events", "/v1/events?model=ats.tag,ats.job&integration=a:1&integration=b:2"),
        [
          ["/v1/events", { integration: undefined, model: undefined }]
        ]
      )
      assert.deepStrictEqual(yield* named("/v1/records", "/v1/records;integration=a:1&model=ats.tag"), [
        ["/v1/records", { integration: "a:1", model: "ats.tag" }]
      ])
      const path = "/v1/streams/:integration/:model/audit"
      assert.deepStrictEqual(
        yield* named(path, "/v1/streams/a%3A1/ats.tag/audit", { integration: "a:1", model: "ats.tag" }),
        [[path, { integration: "a:1", model: "ats.tag" }]]
      )
    }))

  it.effect("notes neither a refusal nor a route without records", () =>
    Effect.gen(function*() {
      const refused = yield* noted("/v1/events", "/v1/events", HttpServerResponse.text("", { status: 410 }))
      const other = yield* noted("/v1/streams", "/v1/streams", HttpServerResponse.text("{}"))
      assert.deepStrictEqual([refused.notes, other.notes], [[], []])
    }))

  it.effect("notes a stream of events once in each hour in which it sends something", () =>
    Effect.gen(function*() {
      const ticks = Stream.fromSchedule(Schedule.spaced("25 minutes")).pipe(Stream.map(String), Stream.encodeText)
      const { answered, notes } = yield* noted("/v1/events", "/v1/events", HttpServerResponse.stream(ticks))
      assert.lengthOf(notes, 1)
      const { body } = answered
      assert.strictEqual(body._tag, "Stream")
      if (body._tag === "Stream") yield* Effect.forkChild(Stream.runDrain(body.stream))
      yield* TestClock.adjust("50 minutes")
      assert.lengthOf(notes, 1)
      yield* TestClock.adjust("25 minutes")
      assert.lengthOf(notes, 2)
      yield* TestClock.adjust("130 minutes")
      assert.lengthOf(notes, 4)
    }))
})
