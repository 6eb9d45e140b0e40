import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { once } from "node:events"
import { request } from "node:http"
import { Api } from "../../../src/http/contract/Api.ts"
import * as Server from "../../../src/http/Server.ts"
import * as Running from "./Running.ts"

const { ask, post, send, stream, served } = Running

describe("the API", () => {
  served("an unknown query parameter is a 400 problem on every endpoint, before the handler runs", function*() {
    for (const { endpoints } of Object.values(Api.groups)) {
      for (const { method, path } of Object.values(endpoints)) {
        const url = path.replaceAll(/:(id|version)/g, "1").replaceAll(":model", "ats.tag").replaceAll(/:\w+/g, "x")
        const { body, status } = yield* send(method, `${url}?modle=ats.tag`, {
          "content-type": "application/json"
        }, "{}")
        assert.deepStrictEqual(
          [status, body.type],
          [400, "urn:rollcall:problem:request-malformed"],
          `${method} ${path}`
        )
        assert.match(body.detail, /no parameter "modle"/, `${method} ${path}`)
      }
    }
    const { body } = yield* ask("/v1/events?modle=ats.tag")
    assert.match(body.hint, /did you mean `model`\? The parameters are after, since, .*transition/)
  })

  served(
    "an unknown query parameter is refused wherever the router finds it, and known ones are accepted in any form",
    function*() {
      const refused = [
        ";modle=x",
        ";limit=1&modle=x",
        "?limit=1&modle=x&limit=2",
        "?__proto__=1",
        "?limit=1#&modle=x",
        "?%00=1"
      ]
      const { url } = yield* Server.Server
      // sends the path as it is: a URL has no query after `;` or `#`
      const statusOf = (query: string) =>
        Effect.promise(async () => {
          const [response] = await once(request(url, { path: `/v1/events${query}`, agent: false }).end(), "response")
          response.resume()
          return response.statusCode
        })
      for (const query of [...refused, "?limit=1;modle=x"]) assert.strictEqual(yield* statusOf(query), 400, query)
      const accepted = ["", "?", ";", "?m%6Fdel=ats.tag&model=ats.offer", ";model=ats.tag"]
      for (const query of accepted) assert.strictEqual(yield* statusOf(query), 200, query)
    }
  )

  served("the OpenAPI document names every path, and /docs shows it", function*() {
    const { body } = yield* ask("/openapi.json")
    assert.deepStrictEqual(Object.keys(body.paths), [
      "/v1/events",
      "/v1/records",
      "/v1/changes",
      "/v1/changes/{position}",
      "/v1/changes/{position}/content",
      "/schemas",
      "/schemas/{name}/{version}",
      "/v1/streams",
      "/v1/streams/{integration}/{model}",
      "/v1/streams/{integration}/{model}/detail",
      "/v1/streams/{integration}/{model}/runs",
      "/v1/integrations",
      "/v1/integrations/{id}/remove",
      "/v1/streams/{integration}/{model}/{command}",
      "/v1/streams/{integration}/{model}/rewind",
      "/v1/streams/{integration}/{model}/audit",
      "/v1/holds",
      "/v1/holds/{id}",
      "/v1/holds/{id}/patterns",
      "/v1/holds/{id}/content",
      "/v1/holds/{id}/plan",
      "/v1/holds/{id}/approve",
      "/v1/holds/{id}/reject",
      "/v1/plugins",
      "/v1/plugins/{plugin}",
      "/v1/plugins/{plugin}/attempts",
      "/v1/plugins/{plugin}/on",
      "/v1/plugins/{plugin}/off",
      "/v1/plugins/{plugin}/try",
      "/v1/plugins/writes/stop",
      "/v1/plugins/writes/unconfirmed",
      "/v1/plugins/writes/resume",
      "/v1/plugins/{plugin}/replay",
      "/v1/deadletters",
      "/v1/deadletters/groups",
      "/v1/deadletters/{id}",
      "/v1/deadletters/plan",
      "/v1/deadletters/redrive",
      "/v1/deadletters/progress",
      "/v1/deadletters/discard",
      "/v1/deadletters/{id}/resolve",
      "/v1/forget",
      "/v1/forget/plan",
      "/v1/forget/progress",
      "/v1/forget/allow",
      "/v1/audit",
      "/v1/audit/reads",
      "/v1/sessions",
      "/v1/sessions/{id}",
      "/v1/fleet",
      "/v1/overview",
      "/v1/overview/streams",
      "/v1/overview/history",
      "/health/live",
      "/health/ready"
    ])
    assert.match(body.openapi, /^3\.1/)
    assert.property(body.paths["/v1/events"].get.responses["200"].content, "text/event-stream")
    yield* ask("/docs")
    const docs = yield* ask("/docs")
    assert.include(docs.type, "text/html")
    assert.include(docs.text, "Rollcall")
  })

  const asked = Effect.fnUntraced(function*(method: string, path: string) {
    const { url } = yield* Server.Server
    const headers = method === "POST" ? { "content-type": "application/json" } : {}
    const response = yield* Effect.promise(() => fetch(`${url}${path}`, { method, headers }))
    const [allow, length, type] = ["allow", "content-length", "content-type"].map((name) => response.headers.get(name))
    return { status: response.status, allow, length, type, text: yield* Effect.promise(() => response.text()) }
  })

  served("an unknown path is a 404 problem for every method and spelling", function*() {
    for (const method of ["GET", "HEAD", "POST", "PROPFIND"]) {
      for (const path of ["/v2/events", "/v1/%", "/v1/streams/%E0%A4%A/ats.tag"]) {
        const { status, type } = yield* asked(method, path)
        assert.deepStrictEqual([status, type], [404, "application/problem+json"], `${method} ${path}`)
      }
    }
  })

  served("a wrong method on a known path is a 405 problem that names the allowed methods", function*() {
    const taken = {
      "/v1/events": "GET, HEAD",
      "/v1/integrations": "GET, HEAD, POST",
      "/v1/holds/7/approve?silent=true": "POST",
      "/v1/streams/greenhouse:acme/ats.tag/rewind": "POST",
      "/v1/streams/greenhouse:acme/ats.tag": "GET, HEAD",
      "/health/live": "GET, HEAD",
      "/metrics": "GET, HEAD",
      "/openapi.json": "GET, HEAD",
      "/docs": "GET, HEAD",
      "/": "GET, HEAD"
    }
    for (const [path, methods] of Object.entries(taken)) {
      const { allow, status, text, type } = yield* asked("DELETE", path)
      assert.deepStrictEqual([status, type, allow], [405, "application/problem+json", methods], path)
      assert.include(JSON.parse(text).hint, methods)
    }
    assert.deepStrictEqual((yield* asked("HEAD", "/v1/holds/7/approve")).status, 405)
  })

  served("an invalid request is a problem that lists each fault with its location and a hint", function*() {
    const problemOf = (answer: { readonly status: number; readonly body: any }) => {
      const { body: { detail, errors, hint, type }, status } = answer
      assert.deepStrictEqual([status, type], [400, "urn:rollcall:problem:request-malformed"])
      return { detail, hint, paths: errors.map(({ path }: { path: ReadonlyArray<string> }) => path.join(".")) }
    }
    assert.deepStrictEqual(problemOf(yield* ask("/v1/events?limit=5000")), {
      detail: "in the query, limit: Expected a value between 1 and 1000",
      hint: "correct the request; GET /docs describes GET /v1/events",
      paths: ["query.limit"]
    })
    const command = problemOf(yield* post("/v1/streams/greenhouse:acme/ats.tag/dance"))
    assert.match(command.detail, /^in the path, command: Expected "pause" \| /)
    assert.match(command.hint, /^did you mean `\w+` for command\?$/)
    const filter = problemOf(yield* post("/v1/deadletters/plan", { ids: ["a"] }))
    assert.deepStrictEqual([filter.detail, filter.paths], ["in the body, ids.0: Expected number", ["payload.ids.0"]])
  })

  served(
    "an unknown value in the query or the path is refused with the closest known one, and is not quoted",
    function*() {
      const hints = {
        "/v1/changes?model=ats.candidat": "did you mean `ats.candidate` for model?",
        "/v1/changes?kind=create": "did you mean `created` for kind?",
        "/v1/events?kind=created,delete&limit=1": "did you mean `deleted` for kind?",
        "/v1/events?model=ats.tag&model=ats.offers": "did you mean `ats.offer` for model?",
        "/v1/holds?state=opne": "did you mean `open` for state?",
        "/v1/streams/greenhouse:acme/ats.tags/detail": "did you mean `ats.tag` for model?",
        "/v1/changes?kind=": "correct the request; GET /docs describes GET /v1/changes"
      }
      for (const [path, hint] of Object.entries(hints)) {
        const { body, status } = yield* ask(path)
        assert.deepStrictEqual([status, body.hint], [400, hint], path)
      }
      const { body } = yield* ask(`/v1/changes?kind=${"k".repeat(1_000)}`)
      assert.notInclude(JSON.stringify(body), "kkk")
      assert.match(body.hint, /^correct the request/)
    }
  )

  served(
    "an unknown property of a body is refused, because a misspelled filter would select everything (I11)",
    function*() {
      const refused = yield* post("/v1/deadletters/plan", { plugn: "a-value" })
      assert.deepStrictEqual([refused.status, refused.body.detail, refused.body.hint], [
        400,
        "in the body, plugn: unknown property",
        "did you mean `plugin`? The properties are plugin, handler, integration, reason, cause, since, until, ids"
      ])
      assert.notInclude(JSON.stringify(refused.body), "a-value")
      const replay = yield* post("/v1/plugins/p/replay", { handler: "h", dryrun: true })
      assert.match(replay.body.hint, /^did you mean `dryRun`\?/)
      const long = yield* post("/v1/deadletters/plan", { ["k".repeat(10_000)]: 1 })
      assert.strictEqual(long.status, 400)
      assert.isBelow(JSON.stringify(long.body).length, 500)
      for (const body of [{}, { plugin: "p", ids: [] }]) {
        assert.strictEqual((yield* post("/v1/deadletters/plan", body)).status, 200)
      }
    }
  )

  served("a body that is not JSON is a 415 problem with a hint", function*() {
    const { url } = yield* Server.Server
    const path = `${url}/v1/streams/greenhouse:acme/ats.tag/rewind`
    const response = yield* Effect.promise(() => fetch(path, { method: "POST", body: new URLSearchParams("to=1") }))
    assert.deepStrictEqual([response.status, response.headers.get("content-type")], [415, "application/problem+json"])
    assert.include((yield* Effect.promise(() => response.json())).hint, "application/json")
  })

  served("HEAD is answered like GET, without the body", function*() {
    yield* stream()
    for (
      const path of [
        "/v1/events",
        "/v1/streams",
        "/health/live",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/",
        "/v1/holds/7"
      ]
    ) {
      const get = yield* asked("GET", path)
      const head = yield* asked("HEAD", path)
      assert.deepStrictEqual([head.status, head.type, head.text], [get.status, get.type, ""], path)
      if (path !== "/metrics" && path !== "/") assert.strictEqual(head.length, get.length, path)
    }
  })
})
