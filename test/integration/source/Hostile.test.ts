/** A hostile upstream: its cost is bounded, the message states the reason, and other integrations are not affected. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { RequestListener, ServerResponse } from "node:http"
import { gzipSync } from "node:zlib"
import { clientOf, json, Loopback, readTags } from "./Loopback.ts"

const mebibyte = 1024 * 1024
const maxBytes = 4 * mebibyte
const page = JSON.stringify({ status: "success", data: { next: null, results: [{ id: "1" }] } })
const chunk = Buffer.alloc(mebibyte, "x")

/** Sends chunks as fast as the client reads them. */
const stream = (response: ServerResponse, count: number, took: (bytes: number) => void) => {
  const more = (left: number): void => {
    if (left === 0) return void response.end()
    response.write(chunk, (error) => {
      if (error) return
      took(chunk.length)
      more(left - 1)
    })
  }
  more(count)
}

const everySoOften = (response: ServerResponse, act: () => void) => {
  const timer = setInterval(act, 10)
  response.once("close", () => clearInterval(timer))
}

/** 1 GiB when decompressed: a gzip file of 64 members, each with 16 MiB. */
const bomb = Buffer.concat(Array.from({ length: 64 }, () => gzipSync(Buffer.alloc(16 * mebibyte))))

const nested = (levels: number) =>
  `{"status":"success","data":{"results":[{"id":"1"},${"[".repeat(levels)}${"]".repeat(levels)}]}}`

const says = "content-type"
const type = { [says]: "application/json" }

const responseTimedOut = "no complete response within 1s"

const hostilities: ReadonlyArray<{
  readonly name: string
  readonly answer: (response: ServerResponse, took: (bytes: number) => void) => void
  readonly expected: string
}> = [
  { name: "never answers", answer: () => {}, expected: responseTimedOut },
  {
    name: "sends its headers slowly without end",
    answer: (response) => {
      response.socket?.write("HTTP/1.1 200 OK\r\n")
      everySoOften(response, () => response.socket?.write("x-drip: 1\r\n"))
    },
    expected: responseTimedOut
  },
  {
    name: "sends its body slowly without end",
    answer: (response) => {
      response.writeHead(200, type)
      everySoOften(response, () => response.write(" "))
    },
    expected: responseTimedOut
  },
  {
    name: "sends a megabyte of headers",
    answer: (response) => response.writeHead(200, { ...type, "x-large": "x".repeat(mebibyte) }).end(page),
    expected: "the API does not answer: the connection failed (HPE_HEADER_OVERFLOW)"
  },
  {
    name: "compresses a gibibyte into a megabyte",
    answer: (response) => response.writeHead(200, { ...type, "content-encoding": "gzip" }).end(bomb),
    expected: "the response is larger than the limit of 4194304 bytes; the rest was not read"
  },
  {
    name: "sends a gibibyte",
    answer: (response, took) => stream(response.writeHead(200, type), 1024, took),
    expected: "the response is larger than the limit of 4194304 bytes; the rest was not read"
  },
  {
    name: "announces less than it sends",
    answer: (response) => response.writeHead(200, { ...type, "content-length": 20 }).end(page.slice(0, 20)),
    expected: "status 200 with broken or unexpected JSON (application/json)"
  },
  {
    name: "answers in Latin-1",
    answer: (response) =>
      response.writeHead(200, { [says]: "application/json; charset=iso-8859-1" })
        .end(Buffer.from(page.replace("1", "Zoë"), "latin1")),
    expected: "data that is not UTF-8"
  },
  {
    name: "answers in UTF-16",
    answer: (response) =>
      response.writeHead(200, { [says]: "application/json; charset=utf-16" }).end(
        Buffer.from(`\ufeff${page}`, "utf16le")
      ),
    expected: "data that is not UTF-8"
  },
  {
    name: "redirects to itself without end",
    answer: (response) => response.writeHead(307, { location: "/v1/ats/tags" }).end(),
    expected: "the URL redirects to another address, which Rollcall does not follow"
  },
  {
    name: "answers with an HTML page",
    answer: (response) => response.writeHead(200, { [says]: "text/html" }).end("<!doctype html><title>Sorry</title>"),
    expected: "status 200 with an HTML page (text/html)"
  },
  {
    name: "closes every connection",
    answer: (response) => response.socket?.resetAndDestroy(),
    expected: "the API does not answer: the connection failed (ECONNRESET)"
  }
]

/** The largest growth of the process's memory while the effect ran. */
const growth = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const before = process.memoryUsage().rss
    let max = before
    const timer = setInterval(() => {
      max = Math.max(max, process.memoryUsage().rss)
    }, 5)
    return Effect.map(Effect.ensuring(effect, Effect.sync(() => clearInterval(timer))), (value) => ({
      value,
      bytes: max - before
    }))
  })

describe("an upstream that", () => {
  it.live.each(hostilities)(
    "$name costs little, is reported, and does not affect other integrations (R3)",
    ({ answer, expected }) =>
      Effect.gen(function*() {
        let taken = 0
        const listener: RequestListener = (request, response) =>
          request.headers["x-integration-id"] === "hostile:1"
            ? answer(response, (bytes) => {
              taken += bytes
            })
            : json(response, page)
        const server = yield* Loopback.serving(listener)
        const timeout = expected === responseTimedOut ? 1000 : 5000
        const client = clientOf(server.url, { timeout, maxBytes })

        const harmed = Effect.all(
          Array.from({ length: 12 }, () =>
            readTags("hostile:1").pipe(
              Effect.flip,
              Effect.map(({ reason }) => reason.message)
            )),
          { concurrency: "unbounded" }
        )
        const others = Effect.forEach(Array.from({ length: 20 }), () => Effect.timed(readTags("good:1")))
        const { bytes, value: [messages, reads] } = yield* growth(
          Effect.all([harmed, others], { concurrency: "unbounded" })
        ).pipe(Effect.provide(client))

        for (const message of messages) assert.include(message, expected)
        for (const [duration] of reads) {
          assert.isBelow(Duration.toMillis(duration), expected === responseTimedOut ? 700 : 2000)
        }
        // Four concurrent attempts hold the limit each, twice while chunks are joined; the engine keeps the rest.
        assert.isBelow(bytes, 4 * 2 * maxBytes + 128 * mebibyte)
        assert.isBelow(taken, 256 * mebibyte)
      })
  )

  it.live("nests one row a hundred thousand levels deep does not make the page's other rows unreadable (S1)", () =>
    Effect.gen(function*() {
      const server = yield* Loopback.serving((_, response) => json(response, nested(100_000)))
      const { results } = yield* Effect.provide(readTags(), clientOf(server.url))
      assert.strictEqual(results.length, 2)
      assert.deepStrictEqual(results[0]?.value, { id: "1" })
    }))

  it.live("sends a gibibyte is cut off at the default limit of 32 MiB", () =>
    Effect.gen(function*() {
      let taken = 0
      const server = yield* Loopback.serving((_, response) =>
        stream(response.writeHead(200, type), 1024, (bytes) => {
          taken += bytes
        })
      )
      const { bytes, value } = yield* growth(Effect.flip(readTags())).pipe(Effect.provide(clientOf(server.url)))
      assert.include(value.reason.message, "limit of 33554432 bytes")
      assert.isBelow(bytes, 200 * mebibyte)
      assert.isBelow(taken, 5 * 40 * mebibyte)
    }))
})
