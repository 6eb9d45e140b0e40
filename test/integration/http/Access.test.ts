import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Queue from "effect/Queue"
import { TestClock } from "effect/testing"
import * as Store from "../../../src/store/Store.ts"
import * as Running from "./Running.ts"

const { bearer, json, readToken, send, served, stream, token, using } = Running

const pause = "/v1/streams/greenhouse:acme/ats.tag/pause"

const add = "/v1/integrations"
const integration = JSON.stringify({ id: "workday:acme", models: ["hris.skill"] })

const isAdded = Effect.map(Effect.flatMap(Store.Store, (store) => store.integrations), (all) => all.length > 0)

describe("the name under which a request arrives", () => {
  it.live("must be allowed although the token is right (DNS rebinding)", () =>
    Effect.gen(function*() {
      for (const host of ["attacker.example", "attacker.example:8477", "localhost.attacker.example", "[::1].example"]) {
        const { body, status } = yield* send("GET", "/v1/events", { host, ...bearer(token) })
        assert.deepStrictEqual([status, body.type], [403, "urn:rollcall:problem:host-not-allowed"], host)
        assert.include(body.detail, "ROLLCALL_HTTP_HOSTS")
      }
      for (const host of ["localhost", "127.0.0.1:8477", "[::1]:8477", "10.0.0.7:8477", "[fd00::7]"]) {
        assert.strictEqual((yield* send("GET", "/v1/events", { host, ...bearer(token) })).status, 200, host)
      }
      const { text } = yield* send("GET", "/metrics", bearer(token))
      assert.include(text, `rollcall_http_refused_total{reason="host"} 4`)
    }).pipe(using({ token }), Effect.provideService(Metric.MetricRegistry, new Map())))

  it.live("may be a configured one", () =>
    Effect.gen(function*() {
      for (const host of ["rollcall.example", "rollcall.example:8477", "ROLLCALL.example", "proxy.example"]) {
        assert.strictEqual((yield* send("GET", "/v1/events", { host, ...bearer(token) })).status, 200, host)
      }
      assert.strictEqual((yield* send("GET", "/v1/events", { host: "example", ...bearer(token) })).status, 403)
    }).pipe(
      using({ token, hosts: [{ name: "rollcall.example", https: false }, { name: "proxy.example", https: true }] })
    ))

  served("must be a loopback name if no token is configured", function*() {
    for (const host of ["attacker.example", "127.0.0.1.attacker.example", "10.0.0.7:8477"]) {
      assert.strictEqual((yield* send("GET", "/v1/events", { host })).status, 403, host)
    }
    for (const host of ["localhost:8477", "127.0.0.1", "[::1]:8477"]) {
      assert.strictEqual((yield* send("GET", "/v1/events", { host })).status, 200, host)
    }
  })
})

describe("a wrong token", () => {
  it.effect("is delayed, counted and logged, in a header and in the form of the login page", () =>
    Effect.gen(function*() {
      const logged = yield* Queue.unbounded<string>()
      const logger = Logger.make(({ message }) => {
        if (String(message).includes("wrong token")) Queue.offerUnsafe(logged, "delayed")
      })
      const form = { "content-type": "application/x-www-form-urlencoded" }
      yield* Effect.gen(function*() {
        for (
          const request of [
            send("GET", "/v1/events", bearer("wrong")),
            send("POST", "/login", form, "token=wrong")
          ]
        ) {
          const sent = yield* Effect.forkChild(request)
          const first = Effect.raceFirst(Queue.take(logged), Effect.as(Fiber.join(sent), "answered"))
          assert.strictEqual(yield* first, "delayed")
          yield* TestClock.adjust("1 minute")
          const { status, text } = yield* Fiber.join(sent)
          assert.strictEqual(status, 401)
          assert.match(text, /token is wrong/)
        }
        const { text } = yield* send("GET", "/metrics", bearer(token))
        assert.match(text, /^rollcall_http_wrong_tokens_total 2$/m)
      }).pipe(using({ token }), Effect.provide(Logger.layer([logger])))
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))
})

describe("a page of another origin", () => {
  const foreign = [
    { origin: "https://localhost:3000" },
    { origin: "http://localhost:3000" },
    { origin: "https://localhost:8477" },
    { origin: "http://attacker.example" },
    { origin: "null" },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { origin: "http://localhost:8477", "sec-fetch-site": "cross-site" }
  ]

  it.live.each([undefined, token])("cannot run a command (token %s)", (secret) =>
    Effect.gen(function*() {
      const known = { host: "localhost:8477", ...json, ...(secret === undefined ? {} : bearer(secret)) }
      for (const path of [add, "/v1/holds/1/approve?plan=x"]) {
        for (const headers of [...foreign, { origin: "https://attacker.example", "content-type": "text/plain" }]) {
          const { body, status } = yield* send("POST", path, { ...known, ...headers }, integration)
          assert.deepStrictEqual(
            [status, body.type],
            [403, "urn:rollcall:problem:origin-not-allowed"],
            `${path} ${JSON.stringify(headers)}`
          )
        }
      }
      assert.isFalse(yield* isAdded)
      const own = { origin: "http://localhost:8477", "sec-fetch-site": "same-origin" }
      assert.strictEqual((yield* send("POST", add, { ...known, ...own }, integration)).status, 200)
      assert.isTrue(yield* isAdded)
    }).pipe(using(secret === undefined ? {} : { token: secret })))

  served("gets no answer to a GET, but a link from it opens the console", function*() {
    yield* stream()
    const host = { host: "localhost:8477" }
    for (const headers of foreign) {
      assert.strictEqual(
        (yield* send("GET", "/v1/events", { ...host, ...headers })).status,
        403,
        JSON.stringify(headers)
      )
    }
    const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }
    assert.strictEqual((yield* send("GET", "/", { ...host, ...link })).status, 200)
    assert.strictEqual((yield* send("GET", "/", { ...host, ...link, "sec-fetch-dest": "iframe" })).status, 403)
    assert.strictEqual((yield* send("GET", "/", { ...host, "sec-fetch-site": "none" })).status, 200)
  })

  served("has the scheme of a proxy that terminates TLS", function*() {
    const known = { host: "rollcall.example", ...json, ...bearer(token) }
    assert.strictEqual(
      (yield* send("POST", add, { ...known, origin: "http://rollcall.example" }, integration)).status,
      403
    )
    assert.strictEqual(
      (yield* send("POST", add, { ...known, origin: "https://rollcall.example" }, integration)).status,
      200
    )
  }, { token, hosts: [{ name: "rollcall.example", https: true }] })
})

describe("a command", () => {
  served("that a form could send is refused, also without a body", function*() {
    const firefox = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0" }
    const bodies: ReadonlyArray<readonly [Record<string, string>, string]> = [
      // a beacon of a browser that does not name the page
      [firefox, ""],
      [{ ...firefox, "content-type": "" }, ""],
      [{}, "{}"],
      [{ "transfer-encoding": "chunked" }, "{}"],
      [{ "content-type": "text/plain" }, "{}"],
      [{ "content-type": "text/plain" }, ""],
      [{ "content-type": "application/x-www-form-urlencoded" }, ""],
      [{ "content-type": "multipart/form-data; boundary=b" }, "--b--"],
      [{ "content-type": "text/plain; application/json" }, "{}"]
    ]
    for (const [headers, body] of bodies) {
      for (const path of [pause, "/v1/integrations", "/v1/plugins/writes/stop"]) {
        const answer = yield* send("POST", path, headers, body)
        assert.deepStrictEqual(
          [answer.status, answer.body.type],
          [415, "urn:rollcall:problem:unsupported-media-type"],
          `${path} ${JSON.stringify(headers)}`
        )
        assert.include(answer.body.hint, "Content-Type: application/json")
      }
    }
    assert.isFalse(yield* isAdded)
    const typed = { "content-type": "application/json; charset=utf-8" }
    assert.strictEqual((yield* send("POST", add, typed, integration)).status, 200)
    assert.strictEqual((yield* send("POST", pause, typed)).status, 404)
  })

  served("without a body needs no content type, unless a browser sends it and does not name the page", function*() {
    const page = { host: "localhost:8477", "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0" }
    const own = { ...page, origin: "http://localhost:8477" }
    const senders = [
      {},
      { "user-agent": "python-httpx/0.28.1", "content-length": "0" },
      own,
      { ...page, "sec-fetch-site": "same-origin" }
    ]
    for (const headers of senders) {
      assert.strictEqual((yield* send("POST", pause, headers)).status, 404, JSON.stringify(headers))
    }
    for (const foreign of [{ origin: "null" }, { origin: "http://attacker.example" }]) {
      assert.strictEqual((yield* send("POST", pause, { ...page, ...foreign })).status, 403)
    }
    assert.strictEqual((yield* send("POST", pause, page)).status, 415)
    const needed = yield* send("POST", "/v1/deadletters/plan")
    assert.deepStrictEqual([needed.status, needed.body.type], [400, "urn:rollcall:problem:request-malformed"])
  })

  served("that has no body refuses one, and an empty object is none", function*() {
    yield* stream()
    const sized = (body: string) => ({ ...json, "content-length": String(body.length) })
    const commands = [
      ["POST", pause],
      ["POST", "/v1/plugins/writes/stop"],
      ["POST", "/v1/holds/7/reject"],
      ["DELETE", "/v1/sessions"]
    ] as const
    for (const [method, path] of commands) {
      for (const body of ['{"until":"2026-03-01T12:00:00Z"}', "[]", "null", "pause", "{}{}"]) {
        const { body: problem, status } = yield* send(method, path, sized(body), body)
        assert.deepStrictEqual([status, problem.type], [400, "urn:rollcall:problem:request-malformed"], path + body)
        assert.include(problem.detail, "no body")
      }
      for (const body of ["", "{}", " { } "]) {
        const { body: answer, status } = yield* send(method, path, sized(body), body)
        assert.notInclude([400, 413, 415, 500], status, JSON.stringify(answer))
      }
    }
    const long = yield* send("POST", pause, { ...json, "transfer-encoding": "chunked" }, `"${"x".repeat(2_000_000)}"`)
    assert.strictEqual(long.status, 413)
  })

  served("on a path with a long id is checked like any other", function*() {
    const remove = `/v1/integrations/${encodeURIComponent(`a:${"ä".repeat(120)}`)}/remove`
    const body = JSON.stringify({ data: "keep" })
    const answers = [
      yield* send("POST", remove, { ...bearer(token), "content-type": "text/plain" }, body),
      yield* send("POST", remove, { ...bearer(readToken), ...json }, body),
      yield* send("POST", remove, { ...bearer(token), ...json }, body)
    ]
    assert.deepStrictEqual(answers.map(({ status }) => status), [415, 403, 404])
    assert.match(answers[2]?.body.detail, /does not exist|unknown|not an integration/)
  }, { token, readToken })

  served("needs the operate token, and every GET is open to the read token", function*() {
    for (const path of ["/v1/events", "/v1/streams", "/metrics", "/"]) {
      assert.strictEqual((yield* send("GET", path, bearer(readToken))).status, 200, path)
    }
    const { body, status } = yield* send("POST", add, { ...json, ...bearer(readToken) }, integration)
    assert.deepStrictEqual([status, body.type], [403, "urn:rollcall:problem:operate-token-required"])
    assert.isFalse(yield* isAdded)
    assert.strictEqual((yield* send("POST", add, { ...json, ...bearer(token) }, integration)).status, 200)
  }, { token, readToken })
})
