import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { gzipSync } from "node:zlib"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import { until } from "../../fault/kill/Patience.ts"
import { valuesOf } from "../../support/source/Doubles.ts"
import { account, clientOf, json, Loopback, readTags } from "./Loopback.ts"

const results = [{ id: "1", name: "ünï – 名前" }, { id: "2" }]
const page = JSON.stringify({ status: "success", data: { next: "more", results } })

const refusedBy = (url: string, options: Partial<UnifiedApi.Options> = {}, integration?: string) =>
  readTags(integration).pipe(Effect.flip, Effect.map(({ reason }) => reason), Effect.provide(clientOf(url, options)))

describe("the API over a real connection", () => {
  it.live("a page is returned completely, with the server's time, and connections are reused", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, page))
      const pages = yield* Effect.all(Array.from({ length: 5 }, () => readTags())).pipe(
        Effect.provide(clientOf(server.url))
      )
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
      assert.deepStrictEqual(valuesOf(yield* Effect.provide(readTags(), clientOf(server.url))), results)
    }))

  it.live("characters that are not allowed in a header are rejected: the process continues and the key is not shown", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, page))
      const key = yield* refusedBy(server.url, { accounts: { default: account(server.url, "k\n名前") } })
      assert.strictEqual(key._tag, "Unauthorized")
      assert.notInclude(key.message, "名前")
      const other = yield* refusedBy(server.url, {}, "greenhouse:名前")
      assert.strictEqual(other._tag, "Inactive")
      assert.include(other.message, "greenhouse:名前")
    }))

  it.live("a refused connection is reported as a failed connection", () =>
    Effect.gen(function*() {
      const url = yield* Effect.scoped(Effect.map(Loopback.serving(() => {}), (server) => server.url))
      const reason = yield* refusedBy(url)
      assert.strictEqual(reason._tag, "Transient")
      assert.include(reason.message, "ECONNREFUSED")
    }))

  it.live("a request whose connection breaks in the middle of the body is retried, at last with fewer rows", () =>
    Effect.gen(function*() {
      let tries = 0
      const server = yield* Loopback.serving((_, response) => {
        if (++tries > 2) return json(response, page)
        response.writeHead(200, { "content-length": page.length })
        response.write(page.slice(0, 20), () => response.socket?.resetAndDestroy())
      })
      assert.deepStrictEqual(valuesOf(yield* Effect.provide(readTags(), clientOf(server.url))), results)
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
      assert.deepStrictEqual(valuesOf(yield* Effect.provide(readTags(), clientOf(server.url))), results)
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
      // the server notices a connection later than its client
      yield* until("the connections to close", Effect.sync(() => server.closed), (closed) => closed === 6)
      assert.strictEqual(server.connections, 6)
    }))
})
