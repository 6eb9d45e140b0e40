import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { gzipSync } from "node:zlib"
import { RequestBudget } from "../../../src/source/RequestBudget.ts"
import { type PageRequest, Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import { valuesOf } from "../../support/source/Doubles.ts"
import { json, Loopback } from "./Loopback.ts"

const request: PageRequest = {
  account: "default",
  integration: "greenhouse:acme",
  model: "ats.tag",
  priority: "poll",
  cursor: null,
  updatedAfter: null,
  ids: null
}
const results = [{ id: "1", name: "ünï – 名前" }, { id: "2" }]
const page = JSON.stringify({ status: "success", data: { next: "more", results } })

const source = (url: string, options: Partial<UnifiedApi.Options> = {}) =>
  UnifiedApi.layer({
    accounts: { default: { url, key: Effect.succeed(Redacted.make("the-key")) } },
    retryBase: "1 millis",
    ...options
  }).pipe(Layer.provide([UnifiedApi.httpClient, RequestBudget.local]))

const read = Effect.flatMap(Source, (service) => service.page(request))

const refusedBy = (url: string, options: Partial<UnifiedApi.Options> = {}) =>
  read.pipe(Effect.flip, Effect.map(({ reason }) => reason), Effect.provide(source(url, options)))

describe("the API over a real connection", () => {
  it.live("a page is returned completely, with the server's time, and connections are reused", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, page))
      const pages = yield* Effect.all(Array.from({ length: 5 }, () => read)).pipe(Effect.provide(source(server.url)))
      for (const page of pages) {
        const { duration, next, requestedAt, serverTime } = page
        assert.deepStrictEqual(valuesOf(page), results)
        assert.strictEqual(next, "more")
        assert.isAtMost(Math.abs((serverTime ?? 0) - requestedAt), 60_000)
        assert.isAtLeast(duration, 0)
      }
      assert.strictEqual(server.connections, 1)
    }))

  it.live("a gzip body is decompressed", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((incoming, response) => {
        assert.strictEqual(incoming.headers["accept-encoding"], "gzip")
        response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(gzipSync(page))
      })
      assert.deepStrictEqual(valuesOf(yield* read.pipe(Effect.provide(source(server.url)))), results)
    }))

  it.live("a wrong key is reported as Unauthorized, and the hint states what to check", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((incoming, response) => {
        const error = { code: "PLATFORM.AUTHENTICATION_INVALID", title: null, message: "no", log_url: null }
        if (incoming.headers.authorization === "Bearer the-key") json(response, page)
        else json(response, JSON.stringify({ status: "error", error }), 401)
      })
      yield* read.pipe(Effect.provide(source(server.url)))
      const reason = yield* refusedBy(server.url, {
        accounts: { default: { url: server.url, key: Effect.succeed(Redacted.make("an-old-key")) } }
      })
      assert.strictEqual(reason._tag, "Unauthorized")
      assert.include(reason.hint, "ROLLCALL_API_KEY")
      assert.notInclude(reason.message, "an-old-key")
    }))

  it.live("characters that are not allowed in a header are rejected: the process continues and the key is not shown", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, page))
      const key = yield* refusedBy(server.url, {
        accounts: { default: { url: server.url, key: Effect.succeed(Redacted.make("k\n名前")) } }
      })
      assert.strictEqual(key._tag, "Unauthorized")
      assert.notInclude(key.message, "名前")
      const other = yield* Source.pipe(
        Effect.flatMap((service) => service.page({ ...request, integration: "greenhouse:名前" })),
        Effect.flip,
        Effect.provide(source(server.url))
      )
      assert.strictEqual(other.reason._tag, "Inactive")
      assert.include(other.reason.message, "greenhouse:名前")
    }))

  it.live.each([200, 404])(
    "a wrong URL that answers %i with an HTML page is reported",
    (status) =>
      Effect.gen(function*() {
        const server = yield* Loopback.serving((_, response) =>
          response.writeHead(status, { "content-type": "text/html" }).end("<!doctype html><title>Hi</title>")
        )
        const reason = yield* refusedBy(server.url)
        assert.strictEqual(reason._tag, "Unreadable")
        assert.include(reason.message, "an HTML page (text/html")
        assert.include(reason.hint, "ROLLCALL_API_URL")
      })
  )

  it.live("a refused connection is reported as a failed connection", () =>
    Effect.gen(function*() {
      const url = yield* Effect.scoped(Effect.map(Loopback.serving(() => {}), (server) => server.url))
      const reason = yield* refusedBy(url)
      assert.strictEqual(reason._tag, "Transient")
      assert.include(reason.message, "ECONNREFUSED")
    }))

  it.live("incomplete JSON is unreadable", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, page.slice(0, page.length / 2)))
      const reason = yield* refusedBy(server.url)
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "broken or unexpected JSON")
    }))

  it.live("a request whose connection breaks in the middle of the body is retried, at last with fewer rows", () =>
    Effect.gen(function*() {
      let tries = 0
      const server = yield* Loopback.serving((_, response) => {
        if (++tries > 2) return json(response, page)
        response.writeHead(200, { "content-length": page.length })
        response.write(page.slice(0, 20), () => response.socket?.resetAndDestroy())
      })
      assert.deepStrictEqual(valuesOf(yield* read.pipe(Effect.provide(source(server.url)))), results)
      // the third response has fewer rows, and the fourth shows that the first size works again
      assert.strictEqual(tries, 4)
    }))

  it.live("a 429 counts even if its body is incomplete (R1)", () =>
    Effect.gen(function*() {
      let tries = 0
      const server = yield* Loopback.serving((_, response) => {
        if (++tries > 8) return json(response, page)
        response.writeHead(429, { "content-length": 100 })
        response.write("{", () => response.socket?.resetAndDestroy())
      })
      assert.deepStrictEqual(valuesOf(yield* read.pipe(Effect.provide(source(server.url)))), results)
    }))

  it.live("a page of 40 MB is cut off at the limit, which the message names", () =>
    Effect.gen(function*() {
      let written = 0
      const chunk = Buffer.alloc(1024 * 1024, "x")
      const server = yield* Loopback.serving((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        const more = (left: number): void => {
          if (left === 0) return void response.end()
          response.write(chunk, (error) => {
            if (error) return
            written += chunk.length
            more(left - 1)
          })
        }
        more(40)
      })
      const reason = yield* refusedBy(server.url)
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "limit of 33554432 bytes")
      assert.isBelow(written, 5 * 40 * chunk.length)
    }))

  it.live("a small gzip body that decompresses to more than the limit is rejected", () =>
    Effect.gen(function*() {
      const bomb = gzipSync(Buffer.alloc(2_000_000, "x"))
      const server = yield* Loopback.serving((_, response) => json(response, bomb))
      const reason = yield* refusedBy(server.url, { maxBytes: 1_000_000 })
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "limit of 1000000 bytes")
    }))

  it.live("a corrupt gzip body is unreadable", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, gzipSync(page).subarray(0, 40)))
      const reason = yield* refusedBy(server.url)
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "corrupt gzip data")
    }))

  it.live("a body that is sent slowly without end is cut off, and its connection is closed", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        const drip = setInterval(() => response.write(" "), 10)
        response.once("close", () => clearInterval(drip))
      })
      const reason = yield* refusedBy(server.url, { timeout: "100 millis" })
      assert.strictEqual(reason._tag, "Transient")
      assert.include(reason.message, "no complete response within 100ms")
      assert.strictEqual(server.connections, 6)
      yield* Effect.suspend(() => server.closed === 6 ? Effect.void : Effect.fail("still open")).pipe(
        Effect.eventually,
        Effect.timeout("5 seconds")
      )
    }))

  it.live("a redirect is not followed, so the key is sent only to its own URL", () =>
    Effect.gen(function*() {
      const keys: Array<string | undefined> = []
      const elsewhere = yield* Loopback.serving((incoming, response) => {
        keys.push(incoming.headers.authorization)
        json(response, page)
      })
      const server = yield* Loopback.serving((_, response) =>
        response.writeHead(302, { location: `${elsewhere.url}/ats/tags` }).end()
      )
      const reason = yield* refusedBy(server.url)
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "redirects to another address")
      assert.deepStrictEqual(keys, [])
    }))
})
