import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import { limited, read, reasonOf, refusal, success, withReplies } from "./Replies.ts"

describe("what is sent", () => {
  it.effect("carries every filter next to the cursor, the key and the integration, and no body", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      yield* read({ cursor: "c/2=", updatedAfter: Date.UTC(2024, 4, 1, 10, 0, 0, 7), ids: ["a", "b"] })
      const [only] = sent
      assert.strictEqual(only?.url.origin + (only?.url.pathname ?? ""), "https://api.example.org/v1/ats/applications")
      assert.deepStrictEqual(Object.fromEntries(only?.url.searchParams ?? []), {
        page_size: "250",
        include_deleted: "true",
        ignore_unsupported_filters: "true",
        updated_after: "2024-05-01T10:00:00.007Z",
        ids: "a,b",
        cursor: "c/2="
      })
      assert.strictEqual(only?.request.headers["authorization"], "Bearer eu-key")
      assert.strictEqual(only?.request.headers["x-integration-id"], "greenhouse:acme")
      assert.strictEqual(only?.request.headers["accept"], "application/json")
      assert.notProperty(only?.request.headers, "content-type")
      assert.notProperty(only?.request.headers, "traceparent")
    }).pipe(Effect.provide(layer))
  })

  it.effect("calls the cursor what the account calls it", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      yield* read({ account: "us", cursor: "c" })
      assert.deepStrictEqual([...sent[0]?.url.searchParams.keys() ?? []].filter((name) => /cursor|token/.test(name)), [
        "page_token"
      ])
      assert.strictEqual(sent[0]?.url.searchParams.get("page_token"), "c")
    }).pipe(Effect.provide(layer))
  })

  it.effect("asks for the assessment packages without a filter and takes the whole list as one page", () => {
    const packages = [{ id: "p1", name: "Typing" }, { id: "p2", surprise: true }]
    const { layer, sent } = withReplies({ body: { status: "success", data: { packages }, warnings: [] } })
    return Effect.gen(function*() {
      const page = yield* yield* read({ model: "assessment.package", updatedAfter: Date.UTC(2024, 4, 1), ids: ["p1"] })
      assert.strictEqual(sent[0]?.url.pathname, "/v1/assessment/packages")
      assert.strictEqual(sent[0]?.url.search, "")
      assert.deepStrictEqual(page.results, packages)
      assert.isNull(page.next)
    }).pipe(Effect.provide(layer))
  })

  it.effect("nothing, where the account of an integration is no longer configured: its key counts as refused", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read({ account: "gone" }))
      assert.deepInclude(reason, { _tag: "Unauthorized", message: 'the configuration has no account "gone"' })
      assert.deepStrictEqual(sent, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("leaves out what is not asked for", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      yield* read()
      assert.deepStrictEqual([...sent[0]?.url.searchParams.keys() ?? []], [
        "page_size",
        "include_deleted",
        "ignore_unsupported_filters"
      ])
    }).pipe(Effect.provide(layer))
  })
})

describe("a page", () => {
  it.effect.each([{ next: null }, { next: "" }, {}])(
    "ends the list when `next` is null, empty or absent %#",
    (data) => {
      const { layer } = withReplies({ body: { status: "success", data: { ...data, results: [{ id: "1" }] } } })
      return Effect.gen(function*() {
        const page = yield* yield* read()
        assert.isNull(page.next)
        assert.deepStrictEqual(page.results, [{ id: "1" }])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("S1: a number that no double holds keeps its digits, as text; every other one is a number", () => {
    const exact = "9007199254740992,-9007199254740992,1e308,0.1,-0,1.0,123456789.123456789012345"
    const inexact = "9007199254740993,-12345678901234567890,1e400"
    const rows = `[{"id":"1","n":[${exact},${inexact}],"s":"9007199254740993"},{"id":"2","n":1e23}]`
    const { layer } = withReplies({ body: `{"status":"success","data":{"next":null,"results":${rows}}}` })
    return Effect.gen(function*() {
      assert.deepStrictEqual((yield* yield* read()).results, [
        {
          id: "1",
          n: [...exact.split(",").map(Number), ...inexact.split(",")],
          s: "9007199254740993"
        },
        { id: "2", n: 1e23 }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("P6: an empty page with a cursor goes on; any 2xx will do", () => {
    const { layer } = withReplies({ status: 206, body: { status: "success", data: { next: "more", results: [] } } })
    return Effect.gen(function*() {
      assert.strictEqual((yield* yield* read()).next, "more")
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([
    { date: "Wed, 01 May 2024 10:00:00 GMT", expected: Date.UTC(2024, 4, 1, 10) },
    { date: "soon", expected: null },
    { date: "12", expected: null },
    { date: undefined, expected: null }
  ])("W5: tells the server's time, or that it is unknown: $date", ({ date, expected }) => {
    const { layer } = withReplies({ ...success, headers: date === undefined ? {} : { date } })
    return Effect.gen(function*() {
      assert.strictEqual((yield* yield* read()).serverTime, expected)
    }).pipe(Effect.provide(layer))
  })
})

describe("refusals", () => {
  it.effect.each([
    { status: 401, code: "PLATFORM.AUTHENTICATION_INVALID", expected: "Unauthorized" },
    { status: 403, code: "INTEGRATION.PERMISSION_MISSING", expected: "Forbidden" },
    { status: 400, code: "INTEGRATION.MODEL_NOT_AVAILABLE", expected: "Unsupported" },
    { status: 404, code: null, expected: "Unsupported" },
    { status: 409, code: "INTEGRATION.SETUP_SYNC_PENDING", expected: "NotReady" },
    { status: 503, code: "INTEGRATION.SETUP_SYNC_PENDING", expected: "NotReady" },
    { status: 400, code: "INTEGRATION.INACTIVE", expected: "Inactive" },
    { status: 410, code: null, expected: "Rejected" },
    { status: 200, code: "INTEGRATION.INACTIVE", expected: "Inactive" }
  ])("C1–C5: $status $code ends the reading at once as $expected", ({ code, expected, status }) => {
    const { layer, sent } = withReplies(refusal(status, code))
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, expected)
      assert.strictEqual(reason.code, code)
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("I11: neither the API's text nor the key reaches the message", () => {
    const { layer } = withReplies({
      status: 400,
      body: {
        status: "error",
        error: { code: "Ada Lovelace", title: "Bad request for Ada Lovelace", message: "eu-key, ada@example.org" }
      }
    })
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.isNull(reason.code)
      assert.strictEqual(reason.message, "status 400 · … request for …")
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([
    { body: "<!DOCTYPE html><p>Ada</p>", type: "text/html", says: "an HTML page (text/html, 25 characters)" },
    { body: '{"status":"success","data":{"res', type: "application/json", says: "broken or unexpected JSON" },
    { body: "", type: "application/json", says: "nothing" },
    { body: "Ada", type: "text/plain", says: "text that is not JSON" },
    {
      body: '{"status":"partial","data":{"results":[],"next":null}}',
      type: "application/json",
      says: "54 characters): it is no answer of the API"
    },
    {
      body: '{"data":{"results":[],"next":null}}',
      type: "application/json",
      says: "35 characters): it is no answer of the API"
    },
    { body: '{"status":"success","data":{}}', type: "application/json", says: "no data.results" },
    {
      body: '{"status":"success","data":{"results":[],"next":7}}',
      type: "application/json",
      says: "data.next is no string"
    }
  ])("I7: an unreadable answer is tried three times, then said to be $says", ({ body, says, type }) => {
    const { layer, sent } = withReplies({ body, headers: { "content-type": type } })
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, says)
      assert.notInclude(reason.message, "Ada")
      assert.strictEqual(sent.length, 3)
    }).pipe(Effect.provide(layer))
  })

  it.effect("S1: a page that is too large is asked for with fewer rows, and so is every one after it", () => {
    const { layer, sent } = withReplies({ body: "x".repeat(33 * 1024 * 1024) }, success)
    return Effect.gen(function*() {
      yield* yield* read({ cursor: "second" })
      yield* yield* read()
      yield* yield* read({ model: "ats.offer" })
      assert.deepStrictEqual(
        sent.map(({ url }) => [url.searchParams.get("page_size"), url.searchParams.get("cursor")]),
        [["250", "second"], ["50", "second"], ["50", null], ["250", null]]
      )
    }).pipe(Effect.provide(layer), Effect.provideService(References.MinimumLogLevel, "None"))
  })

  it.effect("S1: a single row that is too large ends the reading, the next one begins with whole pages", () => {
    const large = { body: "x".repeat(33 * 1024 * 1024) }
    const { layer, sent } = withReplies(large, large, large, large, large, success)
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "larger than the limit of 33554432 bytes")
      yield* yield* read()
      assert.deepStrictEqual(
        sent.map(({ url }) => url.searchParams.get("page_size")),
        ["250", "50", "10", "2", "1", "250"]
      )
    }).pipe(Effect.provide(layer), Effect.provideService(References.MinimumLogLevel, "None"))
  })

  it.effect("a 404 that is not the API's own says that the address is wrong", () => {
    const { layer } = withReplies({ status: 404, body: "<html>", headers: { "content-type": "text/html" } })
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "no such path at this address")
    }).pipe(Effect.provide(layer))
  })
})

describe("what is measured and logged", () => {
  const count = (id: string, attributes: Record<string, string>) =>
    Effect.map(
      Metric.snapshot,
      (metrics) =>
        metrics.flatMap((metric) =>
          metric.id === id && metric.type === "Counter" &&
            Object.entries(attributes).every(([key, value]) => metric.attributes?.[key] === value)
            ? [Number(metric.state.count)]
            : []
        ).reduce((sum, each) => sum + each, 0)
    )

  it.effect("counts requests by outcome, refusals by account", () => {
    const { layer } = withReplies(limited({ "retry-after": "1" }), refusal(500, null), success)
    return Effect.gen(function*() {
      yield* read()
      const endpoint = "ats.application"
      assert.strictEqual(yield* count("rollcall_api_requests_total", { endpoint, outcome: "RateLimited" }), 1)
      assert.strictEqual(yield* count("rollcall_api_requests_total", { endpoint, outcome: "Transient" }), 1)
      assert.strictEqual(yield* count("rollcall_api_requests_total", { endpoint, outcome: "ok" }), 1)
      assert.strictEqual(yield* count("rollcall_api_throttled_total", { account: "eu" }), 1)
    }).pipe(Effect.provide(layer), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  it.effect("R1: a pause of a minute or more is logged, with how long it is obeyed", () => {
    const logged: Array<unknown> = []
    const logger = Logger.make<unknown, void>(({ fiber }) => {
      logged.push(fiber.getRef(References.CurrentLogAnnotations))
    })
    const { layer } = withReplies(limited({ "retry-after": "59" }), limited({ "retry-after": "86400" }), success)
    return Effect.gen(function*() {
      yield* read()
      assert.deepStrictEqual(logged, [{ account: "eu", asked: "1d", waits: "15m" }])
    }).pipe(Effect.provide(layer), Effect.provide(Logger.layer([logger])))
  })

  it.effect("I11: counts every warning, logs each text once, and none of the person in it", () => {
    const logged: Array<string> = []
    const logger = Logger.make<unknown, void>(({ fiber, message }) => {
      logged.push(JSON.stringify([message, fiber.getRef(References.CurrentLogAnnotations)]))
    })
    const warn = (message: string) => ({ message })
    const { layer } = withReplies({
      body: {
        status: "success",
        data: { next: null, results: [] },
        warnings: [
          warn("Candidate Ada Lovelace <ada@example.org> has no phone, id 4711"),
          warn("Candidate Bo Miller <bo@example.org> has no phone, id 4712"),
          warn('field "ssn 123" was dropped'),
          7,
          null
        ]
      }
    })
    return Effect.gen(function*() {
      yield* read()
      yield* read()
      assert.strictEqual(yield* count("rollcall_api_warnings_total", { endpoint: "ats.application" }), 6)
      assert.strictEqual(logged.length, 2)
      assert.include(logged[0], "has no phone")
      for (const secret of ["Ada", "Lovelace", "example", "4711", "ssn", "123"]) {
        assert.notInclude(logged.join(), secret)
      }
    }).pipe(
      Effect.provide(layer),
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
  })
})
