import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { assetPaths, consolePaths } from "../../../src/http/request/ConsolePaths.ts"
import * as Server from "../../../src/http/Server.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Running from "./Running.ts"

const { ask, send, stream, served, using } = Running

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

describe("an unknown path", () => {
  served("is a page of the console for a browser, and a problem for any other client", function*() {
    const page = yield* ask("/nothing/here", { accept: "text/html,application/xhtml+xml" })
    assert.strictEqual(page.status, 404)
    assert.match(page.text, /^<!doctype html>/)
    assert.include(page.text, 'data-right="operate"')
    assert.strictEqual((yield* ask("/v1/holds/1/approve", { accept: "text/html" })).status, 405)
    const { body, status } = yield* ask("/nothing/here")
    assert.deepStrictEqual([status, body.type], [404, "urn:rollcall:problem:not-found"])
  })
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

  served(
    "is given, but degraded, while the API does not answer, and names the cause only to a caller with a token",
    function*() {
      const failing = { count: 3, message: "circuit open", openedBy: "no answer", since: 0 }
      yield* stream({ phase: "live", failing })
      const open = yield* ask("/health/ready")
      assert.deepStrictEqual([open.status, open.body.status, open.body.cause], [200, "degraded", null])
      const known = yield* ask("/health/ready", { authorization: "Bearer letmein" })
      assert.strictEqual(
        known.body.cause,
        "Nothing has been read since 1970-01-01 00:00:00 UTC (1 of 1 streams): no answer"
      )
      const { body: { items: [integration] } } = yield* ask("/v1/integrations", { authorization: "Bearer letmein" })
      assert.deepInclude(integration, { live: 1, blocked: 0, failing: 1 })
    },
    { token: "letmein" }
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

describe("the server", () => {
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

  it.live("closes within seconds although a reader keeps its stream open", () =>
    Effect.gen(function*() {
      const reader = yield* Effect.gen(function*() {
        const { url } = yield* Server.Server
        const response = yield* Effect.promise(() =>
          fetch(`${url}/v1/events`, { headers: { accept: "text/event-stream" } })
        )
        return response.text().catch(() => "cut")
      }).pipe(using(), Effect.timeout("10 seconds"))
      assert.match(yield* Effect.promise(() => reader), /^(cut|: connected\nid: \S+\n\n)$/)
    }))
})
