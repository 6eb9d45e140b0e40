import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { Api } from "../../../src/http/contract/Api.ts"
import { assetPaths, consolePaths } from "../../../src/http/request/ConsolePaths.ts"
import * as Server from "../../../src/http/Server.ts"
import type { BudgetUsage } from "../../../src/source/RequestBudget.ts"
import type { EndedRun, Run } from "../../../src/store/Run.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Running from "./Running.ts"

const { ask, post, send, stream, served, using, write } = Running

describe("the token", () => {
  const paths = ["/v1/events", "/v1/streams", "/v1/records", "/metrics", "/openapi.json", "/docs", "/", "/elsewhere"]

  served("guards every path except /health/* (I11)", function*() {
    const all = paths.flatMap((path) =>
      [{}, { authorization: "Bearer wrong" }, { authorization: "letmein" }].map((headers) => ({ headers, path }))
    )
    // together, because each answer to a wrong token takes a second
    yield* Effect.forEach(all, ({ headers, path }) =>
      Effect.map(ask(path, headers), ({ body, status, type }) => {
        assert.deepStrictEqual([status, type], [401, "application/problem+json"], path)
        assert.strictEqual(body.type, "urn:rollcall:problem:token-required")
      }), { concurrency: "unbounded", discard: true })
    assert.strictEqual((yield* ask("/health/live")).status, 200)
    assert.strictEqual((yield* ask("/health/ready")).status, 200)
    for (const path of ["/v1/events", "/metrics", "/"]) {
      assert.strictEqual((yield* ask(path, { authorization: "Bearer letmein" })).status, 200, path)
      assert.strictEqual((yield* ask(path, { authorization: "bearer letmein" })).status, 200, path)
    }
  }, { token: "letmein" })
})

describe("readiness", () => {
  const ready = Effect.map(ask("/health/ready"), ({ body, status }) => ({
    status,
    reasons: body.checks.filter((check: { ok: boolean }) => !check.ok).map((check: { reason: string }) => check.reason)
  }))

  served(
    "waits for the first response of every stream, says why there is none, and counts a blocked stream as started (C1)",
    function*() {
      yield* stream()
      assert.deepStrictEqual(yield* ready, {
        status: 503,
        reasons: ["greenhouse:acme/ats.tag waits for its first response from the API"]
      })
      yield* stream({ failing: { count: 3, message: "no answer", since: 0 } })
      assert.deepStrictEqual((yield* ready).reasons, [
        "greenhouse:acme/ats.tag failed 3 times since 1970-01-01T00:00:00.000Z: no answer"
      ])
      yield* stream({ failing: null, blocked: { reason: "permission", code: null, message: "not allowed", since: 0 } })
      const { body, status } = yield* ask("/health/ready")
      assert.strictEqual(status, 200)
      assert.deepInclude(body.checks, {
        name: "stream greenhouse:acme/ats.tag",
        ok: true,
        reason: "blocked (permission): not allowed"
      })
      yield* stream({ phase: "backfilling", blocked: null })
      assert.deepStrictEqual(yield* ready, { status: 200, reasons: [] })
    }
  )

  it.live("shows only the status of each part to a caller without a token (I11)", () =>
    Effect.gen(function*() {
      yield* stream({ failing: { count: 3, message: "status 500 · anna schmidt", since: 0 } })
      yield* stream({ blocked: { reason: "permission", code: null, message: "anna schmidt", since: 0 } }, {
        integration: "workday:acme",
        model: "hris.skill"
      })
      const { body, status, text } = yield* ask("/health/ready")
      assert.strictEqual(status, 503)
      assert.deepStrictEqual(body.checks, [
        { name: "store", ok: true, reason: null },
        { name: "kafka", ok: false, reason: null },
        { name: "streams", ok: false, reason: null }
      ])
      assert.strictEqual(body.detail, "not ready: kafka, streams; send a token to see the reasons")
      for (const secret of ["acme", "anna", "broker", "ats."]) assert.notInclude(text, secret)
      const known = yield* ask("/health/ready", { authorization: "Bearer letmein" })
      assert.include(known.text, "workday:acme/hris.skill")
      assert.include(known.text, "broker b1 is down")
      const rebound = yield* send("GET", "/health/ready", { host: "attacker.example", authorization: "Bearer letmein" })
      assert.notInclude(rebound.text, "acme")
    }).pipe(
      using({ token: "letmein", dependencies: [{ name: "kafka", problem: Effect.succeed("broker b1 is down") }] })
    ))

  served("fails with a problem response if another dependency fails", function*() {
    const { body, type } = yield* ask("/health/ready")
    assert.deepStrictEqual([type, body.status, body.detail], [
      "application/problem+json",
      503,
      "Kafka is unavailable"
    ])
  }, { dependencies: [{ name: "kafka", problem: Effect.succeed("Kafka is unavailable") }] })
})

describe("the overview", () => {
  served("GET /v1/streams and /v1/integrations list state, counts and progress", function*() {
    yield* stream({ phase: "live", watermark: 0 })
    yield* write("a", "{}")
    yield* write("b", "{}")
    const { body } = yield* ask("/v1/streams")
    assert.isNull(body.next)
    assert.deepInclude(body.items[0], {
      stream: "greenhouse:acme/ats.tag",
      phase: "live",
      watermark: "1970-01-01T00:00:00.000Z",
      records_live: 2,
      blocked: null,
      progress: null
    })
    assert.deepStrictEqual((yield* ask("/v1/integrations")).body, {
      items: [{
        id: "greenhouse:acme",
        account: "default",
        state: "active",
        declared: true,
        models: "auto",
        backfill: "publish",
        interval_seconds: 60,
        sweep_interval_seconds: 60,
        generation: 1,
        streams: 1,
        live: 1,
        blocked: 0,
        records_live: 2
      }],
      next: null
    })
  })

  served("a request for the stream of a derived model names the model that it is derived from", function*() {
    yield* stream({ phase: "live" }, { integration: "greenhouse:acme", model: "ats.application" })
    const path = "/v1/streams/greenhouse:acme/ats.candidate"
    for (const { body, status } of [yield* ask(path), yield* post(`${path}/audit`), yield* post(`${path}/poll`)]) {
      assert.deepStrictEqual([status, body.type], [404, "urn:rollcall:problem:not-found"])
      assert.include(body.detail, "derived from ats.application: use stream greenhouse:acme/ats.application")
    }
    const { body } = yield* post("/v1/streams/greenhouse:acme/ats.offer/audit")
    assert.match(body.detail, /^stream greenhouse:acme\/ats\.offer does not exist: .*GET \/v1\/streams/)
  })

  let usage: BudgetUsage | null = null
  served("the page of a stream has the request budget of its account, of one process or of a fleet", function*() {
    yield* stream({ phase: "live" })
    const budget = Effect.map(ask("/v1/streams/greenhouse:acme/ats.tag/detail"), ({ body }) => body.budget)
    assert.include((yield* budget).text, "This process does not know the account")
    for (
      const [processes, taken, text] of [
        [null, 2, "2 requests in flight of at most 8, and 3 wait."],
        [1, 1, "1 process of the fleet has 1 slot of 8 for requests, and could use 5."],
        [3, 7, "3 processes of the fleet have 7 slots of 8 for requests, and could use 5."],
        [0, 0, "No process of the fleet sends requests now; together they may have 8 in flight."]
      ] as const
    ) {
      usage = { limit: 8, taken, wanted: 5, processes, pauseLeft: Duration.seconds(40) }
      assert.deepStrictEqual(yield* budget, {
        account: "default",
        limit: 8,
        taken,
        wanted: 5,
        processes,
        paused_seconds: 40,
        text: `${text} The API requested a pause: no request is sent for 40s.`
      })
    }
  }, { usageOf: () => Effect.sync(() => usage) })

  served.virtual(
    "a running sweep is shown with its rate, and with the time left if the number of records is known",
    function*() {
      yield* TestClock.setTime(1_000_000)
      const balance = { read: 1, unchanged: 1, equivalent: 0, changed: 0, tombstones: 0, duplicates: 0, pending: 0 }
      const sweep: Run = {
        id: 1,
        kind: "sweep",
        backfill: true,
        updatedAfter: null,
        cursor: null,
        phase: "pages",
        pages: 1,
        startedAt: 990_000,
        watermark: null,
        rowCounts: { ...balance, quarantined: 0 }
      }
      yield* stream({ phase: "backfilling", sweep })
      for (const id of ["a", "b", "c"]) yield* write(id, "{}")
      const progress = Effect.map(ask("/v1/streams"), ({ body }) => body.items[0].progress)
      assert.deepInclude(yield* progress, {
        kind: "backfill",
        records: 1,
        pages: 1,
        records_per_second: 0.1,
        seconds_left: null
      })
      yield* stream({ phase: "live", backfilledAt: 1 })
      assert.deepInclude(yield* progress, { kind: "sweep", seconds_left: 20 })
    }
  )

  served(
    "every path of the console is the same page, whose script and style sheet are files of this server",
    function*() {
      const { text, type } = yield* ask("/")
      assert.include(type, "text/html")
      for (const path of consolePaths) {
        const found = yield* ask(path.replaceAll(/:\w+/g, "x"))
        assert.deepStrictEqual([found.status, found.text], [200, text], path)
      }
      const files = [...text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = ""]) => path)
      assert.sameMembers(files.filter((path) => path !== "/docs"), [
        "/console/icon.svg",
        "/console/console.css",
        "/console/console.js"
      ])
      for (const path of assetPaths) {
        const plain = yield* send("GET", path)
        const zipped = yield* send("GET", path, { "accept-encoding": "gzip" })
        assert.deepStrictEqual([plain.status, zipped.headers["content-encoding"]], [200, "gzip"], path)
        assert.isAbove(Number(plain.headers["content-length"]), 0, path)
        assert.isBelow(Number(zipped.headers["content-length"]), 100 * 1024, path)
      }
    }
  )

  served(
    "a broken integration is one matter of the overview, with the cause and the number of its streams",
    function*() {
      const blocked = { reason: "inactive", code: null, message: "reconnect it", since: 0 } as const
      for (const model of ["ats.tag", "ats.offer", "hris.skill"] as const) {
        yield* stream({ blocked }, { integration: "lever:acme", model })
      }
      const { matters, store, streams } = (yield* ask("/v1/overview")).body
      assert.lengthOf(matters, 1)
      assert.deepInclude(matters[0], {
        kind: "blocked",
        detail: "reconnect it",
        since: "1970-01-01T00:00:00.000Z",
        integrations: ["lever:acme"],
        stream_count: 3,
        link: "/integrations/lever%3Aacme"
      })
      assert.deepInclude(streams, { total: 3, blocked: 3, live: 0 })
      // of the database in memory; its disk is not known
      assert.isAbove(store.size_bytes, 0)
      assert.deepInclude(store, { free_bytes: null, disk_bytes: null })
      assert.lengthOf((yield* ask("/v1/streams")).body.items, 3)
    }
  )

  served("the rows of the streams are filtered, sorted and counted by the server", function*() {
    const blocked = { reason: "inactive", code: null, message: "reconnect it", since: 0 } as const
    yield* stream({ phase: "live" }, { integration: "greenhouse:acme", model: "ats.tag" })
    yield* stream({ blocked }, { integration: "lever:acme", model: "ats.tag" })
    yield* stream({ paused: true }, { integration: "lever:acme", model: "ats.offer" })
    const rows = Effect.fnUntraced(function*(query: string) {
      const { items, next, total } = (yield* ask(`/v1/overview/streams${query}`)).body
      return [items.map((row: { stream: string; state: string }) => `${row.stream} ${row.state}`), total, next]
    })
    const all = ["lever:acme/ats.tag blocked", "lever:acme/ats.offer paused", "greenhouse:acme/ats.tag ok"]
    assert.deepStrictEqual(yield* rows(""), [all, 3, null])
    assert.deepStrictEqual(yield* rows("?limit=2"), [all.slice(0, 2), 3, "2"])
    assert.deepStrictEqual(yield* rows("?limit=2&after=2"), [all.slice(2), 3, null])
    assert.deepStrictEqual(yield* rows("?search=LEVER+tag"), [all.slice(0, 1), 1, null])
    assert.deepStrictEqual(yield* rows("?search=reconnect"), [all.slice(0, 1), 1, null])
    assert.deepStrictEqual(yield* rows("?state=paused"), [all.slice(1, 2), 1, null])
    assert.deepStrictEqual(yield* rows("?order=stream"), [[all[2], all[1], all[0]], 3, null])
    assert.strictEqual((yield* ask("/v1/overview/streams?order=name")).status, 400)
  })

  served("a stream names the page of the API's log about its last failed request", function*() {
    const logUrl = "https://app.example.com/logs/4f"
    yield* stream({ blocked: { reason: "inactive", code: null, message: "refused", since: 0, logUrl } })
    const { body } = yield* ask("/v1/streams/greenhouse:acme/ats.tag/detail")
    assert.isTrue(body.sentence.endsWith(`The API's log of the request: ${logUrl}`), body.sentence)
    assert.deepStrictEqual(body.stream.blocked, {
      reason: "inactive",
      message: "refused",
      since: "1970-01-01T00:00:00.000Z",
      log_url: logUrl
    })
  })

  served("a stream in detail says its state in a sentence, and why each of its runs ended", function*() {
    const rowCounts = {
      read: 3,
      unchanged: 2,
      equivalent: 0,
      changed: 1,
      tombstones: 0,
      duplicates: 0,
      pending: 0,
      quarantined: 0
    }
    const common = { backfill: false, pages: 1, startedAt: 0, pass: 1, rowCounts } as const
    const sweep = {
      ...common,
      id: 9,
      kind: "sweep",
      updatedAfter: null,
      cursor: "2",
      phase: "pages",
      watermark: null
    } as const
    const idle = { polls: 4, read: 2, since: 2_000, until: 5_000 }
    yield* stream({ phase: "live", paused: true, sweep, recordedRuns: 3, idlePolls: idle })
    const store = yield* Store
    const owner = yield* store.takeOwnership("capture")
    const ended = { ...common, endedAt: 1_000, times: 1, idle: null }
    const runs: ReadonlyArray<EndedRun> = [
      { ...ended, number: 1, id: 6, kind: "sweep", outcome: "repeated", reason: "restart", backfill: true },
      { ...ended, number: 2, id: 7, kind: "poll", outcome: "failed", reason: "status 502", times: 3, idle },
      {
        ...ended,
        number: 3,
        id: 8,
        kind: "poll",
        outcome: "complete",
        reason: null,
        rowCounts: { ...rowCounts, read: 4 },
        published: { created: 1, updated: 0, deleted: 0 }
      }
    ]
    const key = { integration: "greenhouse:acme", model: "ats.tag" } as const
    yield* store.transact(owner, key, ({ recordRun }) => Effect.forEach(runs, recordRun))
    const { body } = yield* ask("/v1/streams/greenhouse:acme/ats.tag/detail")
    assert.deepInclude(body, { state: "paused", target_seconds: 180 })
    assert.strictEqual(body.sentence, "Paused by an operator: it is not read until it is resumed.")
    const { body: found } = yield* ask("/v1/streams/greenhouse:acme/ats.tag/runs")
    const idleView = { polls: 4, read: 2, since: "1970-01-01T00:00:02.000Z", until: "1970-01-01T00:00:05.000Z" }
    assert.deepStrictEqual(found.idle, idleView)
    assert.deepStrictEqual(
      found.items.map((
        { balanced, created, ended_at, idle_before, kind, number, outcome, reason, times }: Record<string, unknown>
      ) => [number, kind, ended_at, outcome, reason, times, created, balanced, idle_before]),
      [
        [null, "sweep", null, "running", null, 1, 0, true, null],
        [3, "poll", "1970-01-01T00:00:01.000Z", "complete", null, 1, 1, false, null],
        [2, "poll", "1970-01-01T00:00:01.000Z", "failed", "status 502", 3, 0, true, idleView],
        [
          1,
          "backfill",
          "1970-01-01T00:00:01.000Z",
          "repeated",
          "another process had read the first pages",
          1,
          0,
          true,
          null
        ]
      ]
    )
    for (const part of ["detail", "runs"]) {
      assert.strictEqual((yield* ask(`/v1/streams/greenhouse:acme/ats.offer/${part}`)).status, 404)
    }
  })

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
      "/v1/holds/{id}/plan",
      "/v1/holds/{id}/approve",
      "/v1/holds/{id}/reject",
      "/v1/plugins",
      "/v1/plugins/{plugin}",
      "/v1/plugins/{plugin}/on",
      "/v1/plugins/{plugin}/off",
      "/v1/plugins/writes/stop",
      "/v1/plugins/writes/unconfirmed",
      "/v1/plugins/writes/resume",
      "/v1/plugins/{plugin}/replay",
      "/v1/deadletters",
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
        "did you mean `plugin`? The properties are plugin, handler, integration, reason, since, until, ids"
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

describe("the server", () => {
  it.live("a port in use is an error with a hint", () =>
    Effect.gen(function*() {
      const other = createServer()
      yield* Effect.promise(() => new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve)))
      const { port } = other.address() as AddressInfo
      const taken = Running.server({ port })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(taken))).pipe(
        Effect.provide(MemoryStore.layer()),
        Effect.ensuring(Effect.sync(() => other.close()))
      )
      assert(error._tag === "ServerError")
      assert.strictEqual(error.message, `127.0.0.1 port ${port} is in use`)
      assert.match(error.hint, /ROLLCALL_HTTP_PORT/)
    }))

  it.live("closes within two seconds although a reader keeps its stream open", () =>
    Effect.gen(function*() {
      const reader = yield* Effect.gen(function*() {
        const { url } = yield* Server.Server
        const response = yield* Effect.promise(() =>
          fetch(`${url}/v1/events`, { headers: { accept: "text/event-stream" } })
        )
        return response.text().catch(() => "cut")
      }).pipe(using(), Effect.timeout("2 seconds"))
      assert.match(yield* Effect.promise(() => reader), /^(cut|: connected\nid: \S+\n\n)$/)
    }))
})
