import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { once } from "node:events"
import { request } from "node:http"
import { connect, type Socket } from "node:net"
import * as Server from "../../../src/http/Server.ts"
import * as Running from "./Running.ts"

const { json, post, send, served, stream, token, using, write } = Running
const rewind = "/v1/streams/greenhouse:acme/ats.tag/rewind"
const mebibyte = 1024 * 1024

/** A connection on which nothing is sent or read by itself. */
const open = Effect.flatMap(Server.Server, ({ url }) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const socket = connect(Number(new URL(url).port), "127.0.0.1")
      socket.on("error", () => {})
      await once(socket, "connect")
      return socket
    }),
    (socket) => Effect.sync(() => socket.destroy())
  ))

const closed = (socket: Socket) =>
  Effect.promise(async () => {
    if (!socket.destroyed) await once(socket.resume(), "close")
  })

/** Waits for the first bytes. */
const received = (socket: Socket) => Effect.promise(async () => String((await once(socket, "data"))[0]))

const follow = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"

describe("a body", () => {
  served("of more than 64 KiB is refused before it is read, and a streamed one while it is read", function*() {
    const large = JSON.stringify({ to: "2026-01-01T00:00:00Z", id: "x".repeat(64 * 1024) })
    for (const path of [rewind, "/v1/integrations", "/v1/deadletters/plan"]) {
      for (const headers of [{ "content-length": String(large.length) }, { "transfer-encoding": "chunked" }]) {
        const { body, status } = yield* send("POST", path, { ...json, ...headers }, large)
        assert.deepStrictEqual(
          [status, body?.type],
          [413, "urn:rollcall:problem:payload-too-large"],
          `${path} ${JSON.stringify(headers)}`
        )
      }
    }
    const { url } = yield* Server.Server
    const status = yield* Effect.promise(async () => {
      const headers = { ...json, "content-length": 210 * mebibyte }
      const sent = request(`${url}/v1/integrations`, { method: "POST", headers, agent: false }).on("error", () => {})
      sent.flushHeaders()
      const [answer] = await once(sent, "response")
      sent.destroy()
      return answer.statusCode
    })
    assert.strictEqual(status, 413)
  })

  served("of the login form has the same limit", function*() {
    const form = { "content-type": "application/x-www-form-urlencoded", "transfer-encoding": "chunked" }
    assert.strictEqual((yield* send("POST", "/login", form, `token=${"x".repeat(65 * 1024)}`)).status, 413)
  }, { token })

  served("that is nested deeply is a fault, not an error of the server", function*() {
    const deep = "[".repeat(30_000) + "]".repeat(30_000)
    for (const path of ["/v1/integrations", "/v1/deadletters/plan", "/v1/deadletters/1/resolve", rewind]) {
      for (const body of [deep, `{"id":${deep}}`, `{"outcome":"a","happened":true,"result":${deep}}`]) {
        const { status } = yield* send("POST", path, json, body)
        assert.isBelow(status ?? 500, 500, path)
      }
    }
  })

  served("with long or many names is answered in a few kilobytes", function*() {
    const bodies = [
      { id: "a:b", models: ["x".repeat(60_000)] },
      { id: "a:b", models: Array.from({ length: 15_000 }, () => "x") },
      { id: "x".repeat(60_000) },
      { id: "a:b", account: "x".repeat(60_000), interval: "y".repeat(100) },
      { ["x".repeat(60_000)]: 1 },
      Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`p${index}`, 1])),
      { id: "a:b", backfill: "x".repeat(60_000) },
      { id: "a:b", interval: "x".repeat(60_000) }
    ]
    for (const body of bodies) {
      const { body: problem, status } = yield* post("/v1/integrations", body)
      assert.strictEqual(status, 400)
      assert.isBelow(JSON.stringify(problem).length, 8192, JSON.stringify(body).slice(0, 50))
    }
    const ids = yield* post("/v1/deadletters/plan", { ids: Array.from({ length: 12_000 }, (_, id) => id) })
    assert.strictEqual(ids.status, 400)
  })
})

describe("a request that reaches no handler", () => {
  const host = "Host: localhost\r\n"
  it.live.each<readonly [request: string, status: number, type: string]>([
    [`GET /${"x".repeat(20_000)} HTTP/1.1\r\n${host}\r\n`, 431, "headers-too-large"],
    [`GET /health/live HTTP/1.1\r\n${host}X-Long: ${"x".repeat(20_000)}\r\n\r\n`, 431, "headers-too-large"],
    ["\u0016\u0003\u0001 not HTTP\r\n\r\n", 400, "request-unreadable"],
    [`GET /health/live HTTP/1.1\r\n${host}X-Slow: `, 408, "request-timeout"],
    [
      `POST ${rewind} HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
      408,
      "request-timeout"
    ]
  ])(
    "gets a problem as its response, and the connection is closed (%#)",
    ([request, status, type]) =>
      Effect.gen(function*() {
        const socket = yield* open
        socket.write(request)
        const text = yield* received(socket)
        assert.match(text, new RegExp(`^HTTP/1.1 ${status} `))
        assert.match(text, /^content-type: application\/problem\+json\r$/m)
        assert.match(text, /^x-content-type-options: nosniff\r$/m)
        const problem: unknown = JSON.parse(text.slice(text.indexOf("\r\n\r\n")))
        assert.deepInclude(problem, { status, type: `urn:rollcall:problem:${type}` })
        yield* closed(socket)
      }).pipe(Effect.scoped, using({ limits: { headers: "400 millis", request: "400 millis" } }))
  )

  served("gets no response while another one is being sent on its connection", function*() {
    const socket = yield* open
    socket.write(follow)
    assert.match(yield* received(socket), /^HTTP\/1.1 200 /)
    const rest: Array<string> = []
    socket.on("data", (data) => rest.push(String(data)))
    socket.write("not HTTP\r\n\r\n")
    yield* closed(socket)
    assert.notInclude(rest.join(""), "HTTP/1.1")
  })
})

describe("readers of the event stream", () => {
  served("are refused beyond the limit until one of them leaves", function*() {
    const first = yield* open
    first.write(follow)
    yield* received(first)
    const second = yield* open
    second.write(follow)
    yield* received(second)
    const accept = { accept: "text/event-stream" }
    const { body, headers, status } = yield* send("GET", "/v1/events", accept)
    assert.deepStrictEqual([status, body.type], [503, "urn:rollcall:problem:too-many-readers"])
    assert.strictEqual(headers["retry-after"], "30")
    assert.strictEqual((yield* send("HEAD", "/v1/events", accept)).status, 200)
    assert.strictEqual((yield* send("GET", "/v1/events")).status, 200)
    first.destroy()
    const third = yield* open
    for (;;) {
      third.write(follow)
      if ((yield* received(third)).startsWith("HTTP/1.1 200")) break
    }
  }, { limits: { eventReaders: 2 } })

  served("are not counted for requests without a token, which could otherwise use up the limit", function*() {
    const host = "Host: localhost\r\n"
    const socket = yield* open
    // these are answered in order, so all of them wait for the first one, which is delayed
    socket.write(
      `GET /v1/events HTTP/1.1\r\n${host}Authorization: Bearer wrong\r\n\r\n` +
        `GET /health/live HTTP/1.1\r\n${host}Accept: text/event-stream\r\n\r\n`.repeat(3)
    )
    const head = yield* open
    head.write(`GET /health/live HTTP/1.1\r\n${host}\r\n`)
    yield* received(head)
    const reader = yield* open
    reader.write(follow.replace("Accept", `Authorization: Bearer ${token}\r\nAccept`))
    assert.match(yield* received(reader), /^HTTP\/1.1 200/)
  }, { limits: { eventReaders: 2 }, token })

  it.live("that do not read are disconnected, and readers without events are not (I9)", () =>
    Effect.gen(function*() {
      const cut = yield* Deferred.make<void>()
      const logger = Logger.make(({ message }) => {
        if (String(message).includes("does not read")) Deferred.doneUnsafe(cut, Effect.void)
      })
      yield* Effect.gen(function*() {
        yield* stream()
        const idle = yield* open
        idle.write(follow.replace("/v1/events", "/v1/events?integration=workday:acme"))
        yield* received(idle)
        for (let id = 0; id < 24; id++) yield* write(`r${id}`, JSON.stringify({ name: "x".repeat(mebibyte) }))
        const stalled = yield* open
        stalled.pause()
        stalled.write(follow)
        yield* Deferred.await(cut)
        yield* closed(stalled)
        const news = received(idle)
        yield* write("w", "{}", { integration: "workday:acme", model: "ats.tag" }).pipe(
          Effect.ignore,
          Effect.andThen(stream({}, { integration: "workday:acme", model: "ats.tag" })),
          Effect.andThen(write("w", "{}", { integration: "workday:acme", model: "ats.tag" }))
        )
        assert.include(yield* news, "workday:acme")
      }).pipe(Effect.scoped, using({ limits: { stall: "300 millis" } }), Effect.provide(Logger.layer([logger])))
    }))
})

describe("unread pages", () => {
  served(
    "of all connections hold limited memory: a further page is 503 until a client has read or left (I9)",
    function*() {
      yield* stream()
      for (let id = 0; id < 9; id++) yield* write(`r${id}`, JSON.stringify({ name: "x".repeat(mebibyte - 1000) }))
      /** Asks for a small page until the status is this one. */
      const until = Effect.fnUntraced(function*(status: number) {
        for (;;) {
          const answer = yield* send("GET", "/v1/events?after=latest")
          if (answer.status === status) return answer
          yield* Effect.sleep("20 millis")
        }
      })
      const unread = []
      for (const path of ["events?limit=1000", "records?integration=greenhouse:acme&model=ats.tag&limit=1000"]) {
        const socket = yield* open
        socket.pause()
        socket.write(`GET /v1/${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
        unread.push(socket)
      }
      const { body, headers } = yield* until(503)
      assert.deepStrictEqual([body.type, headers["retry-after"]], ["urn:rollcall:problem:too-many-pages", "30"])
      assert.strictEqual((yield* send("GET", "/v1/streams")).status, 200)
      unread[0]!.destroy()
      yield* until(200)
    },
    { limits: { pageBytes: 17 * mebibyte, pageWait: "100 millis" } }
  )

  it.live("hold memory for at most 30 s while another request waits for it, even if their clients make slow progress", () =>
    Effect.gen(function*() {
      yield* stream()
      for (let id = 0; id < 9; id++) yield* write(`r${id}`, JSON.stringify({ name: "x".repeat(mebibyte - 1000) }))
      const [oldest, newest] = [yield* open, yield* open]
      for (const socket of [oldest, newest]) {
        socket.pause()
        socket.write("GET /v1/events?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield* Effect.promise(() => once(socket, "readable"))
      }
      assert.strictEqual((yield* send("GET", "/v1/events?after=latest")).status, 200)
      yield* closed(oldest)
      assert.isFalse(newest.destroyed)
    }).pipe(
      Effect.scoped,
      using({ limits: { pageBytes: 17 * mebibyte, stall: "1 hour", pageWait: "1 hour", pageReceipt: "200 millis" } })
    ))

  it.live("of the documentation share the memory of one (I9)", () =>
    Effect.gen(function*() {
      const size = (yield* send("GET", "/docs")).text.length
      const before = process.memoryUsage().arrayBuffers
      for (let count = 0; count < 8; count++) {
        const socket = yield* open
        socket.pause()
        socket.write("GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(8))
      }
      const answered = Effect.map(Metric.snapshot, (metrics) => {
        const found = metrics.find(({ attributes }) => attributes?.["route"] === "/docs")
        return (found?.state as { count: number } | undefined)?.count
      })
      while ((yield* answered) !== 65) yield* Effect.sleep("5 millis")
      assert.isBelow(process.memoryUsage().arrayBuffers - before, 8 * size)
    }).pipe(Effect.scoped, using(), Effect.provideService(Metric.MetricRegistry, new Map())))

  served("that cannot be made hold no memory afterwards (I9)", function*() {
    yield* stream()
    for (let tries = 0; tries < 3; tries++) {
      assert.strictEqual((yield* send("GET", "/v1/records?integration=a:b&model=ats.tag")).status, 404)
    }
    assert.strictEqual((yield* send("GET", "/v1/events")).status, 200)
  }, { limits: { pageBytes: mebibyte, pageWait: 0 } })
})

describe("connections", () => {
  it.live("beyond the limit are closed and counted", () =>
    Effect.gen(function*() {
      const some = [yield* open, yield* open]
      const one = yield* open
      yield* closed(one)
      const dropped = (yield* Metric.snapshot).find(({ id }) => id === "rollcall_http_connections_dropped_total")
      assert.strictEqual((dropped?.state as { count: number } | undefined)?.count, 1)
      for (const socket of some) assert.isFalse(socket.destroyed)
    }).pipe(
      Effect.scoped,
      using({ limits: { connections: 2 } }),
      Effect.provideService(Metric.MetricRegistry, new Map())
    ))

  it.live("that send many requests without waiting for the answers are closed, so that the answers do not fill the memory (I9)", () =>
    Effect.gen(function*() {
      yield* stream()
      const page = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
      const few = yield* open
      few.write(page.repeat(4))
      assert.match(yield* received(few), /^HTTP\/1.1 200/)
      for (const request of [page, page.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n")]) {
        const many = yield* open
        many.write(request.repeat(300))
        yield* closed(many)
        // of 300 answers with 491 bytes
        assert.isBelow(many.bytesRead, 8192)
      }
      assert.strictEqual((yield* send("GET", "/v1/events")).status, 200)
      const cut = (yield* Metric.snapshot).find(({ id }) => id === "rollcall_http_readers_cut_total")
      assert.strictEqual((cut?.state as { count: number } | undefined)?.count, 2)
    }).pipe(Effect.scoped, using(), Effect.provideService(Metric.MetricRegistry, new Map())))

  served(
    "that ask for another protocol have the same limits: the request is answered as if it did not ask",
    function*() {
      for (const protocol of ["websocket", "h2c"]) {
        const one = yield* open
        for (let count = 0; count < 2; count++) {
          one.write(
            `GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`
          )
          assert.match(yield* received(one), /^HTTP\/1.1 200 OK\r\n[^]*Connection: keep-alive\r\n/)
        }
        one.destroy()
      }
    }
  )

  served("with many requests one after another do not collect a listener for each of them", function*() {
    const warnings: Array<string> = []
    const note = ({ name }: Error) => void warnings.push(name)
    process.on("warning", note)
    yield* Effect.addFinalizer(() => Effect.sync(() => process.off("warning", note)))
    const one = yield* open
    for (let count = 0; count < 20; count++) {
      one.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
      yield* received(one)
    }
    assert.notInclude(warnings, "MaxListenersExceededWarning")
  })

  served("that send their request too slowly are closed, even if they send nothing", function*() {
    const slow = yield* open
    slow.write("GET / HTTP/1.1\r\nHost: localhost\r\n")
    const silent = yield* open
    const body = yield* open
    body.write(
      `POST ${rewind} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`
    )
    yield* Effect.all([closed(slow), closed(silent), closed(body)], { concurrency: "unbounded" })
  }, { limits: { headers: "200 millis", request: "400 millis" } })
})
