import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { gzipSync } from "node:zlib"
import { valuesOf } from "../../test/support/source/Doubles.ts"
import {
  count,
  finished,
  limited,
  read,
  reasonOf,
  refusal,
  request,
  success,
  withBudget,
  withReplies
} from "../../test/support/source/Replies.ts"
import { RequestBudget } from "./RequestBudget.ts"
import { Source } from "./Source.ts"

describe("a list request", () => {
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
    }).pipe(Effect.provide(layer))
  })

  it.effect("uses the account's name for the cursor parameter, and contains no parameters without a value", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      yield* read({ account: "us", cursor: "c" })
      assert.deepStrictEqual(Object.fromEntries(sent[0]?.url.searchParams ?? []), {
        page_size: "250",
        include_deleted: "true",
        ignore_unsupported_filters: "true",
        page_token: "c"
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("requests the assessment packages without a filter and returns the whole list as one page", () => {
    const packages = [{ id: "p1", name: "Typing" }, { id: "p2", surprise: true }]
    const { layer, sent } = withReplies({ body: { status: "success", data: { packages }, warnings: [] } })
    return Effect.gen(function*() {
      const page = yield* yield* read({ model: "assessment.package", updatedAfter: Date.UTC(2024, 4, 1), ids: ["p1"] })
      assert.strictEqual(sent[0]?.url.pathname, "/v1/assessment/packages")
      assert.strictEqual(sent[0]?.url.search, "")
      assert.deepStrictEqual(valuesOf(page), packages)
      assert.isNull(page.next)
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits while its account has as many requests in flight as it may have; each account has a number of its own", () => {
    const { layer, sent } = withReplies({ silent: true })
    return Effect.gen(function*() {
      const source = yield* Source
      for (const account of ["eu", "us"]) {
        for (let index = 0; index < 30; index++) {
          yield* Effect.forkChild(source.page({ ...request, account, integration: `greenhouse:${index}` }))
        }
      }
      yield* TestClock.adjust("1 second")
      const inFlight = Map.groupBy(sent, ({ url }) => url.hostname)
      assert.deepStrictEqual([...inFlight].map(([host, { length }]) => [host, length]), [
        ["api.example.org", 8],
        ["us.example.org", 20]
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for another slot if its own expires before it is sent (X9, X10)", () => {
    let hasSlots = true
    let changed: Effect.Effect<void> = Effect.void
    const budget = Layer.succeed(RequestBudget)({
      open: ({ account, onChange }) => {
        if (account === "eu") changed = onChange(Duration.zero)
        return Effect.succeed({
          slots: () => hasSlots ? 1 : 0,
          isValid: () => hasSlots,
          report: () => {},
          pause: () => {},
          usage: Effect.succeed(null)
        })
      }
    })
    let slowTimes = 2
    const slowKey = Effect.sync(() => {
      if (slowTimes-- > 0) hasSlots = false
      return Redacted.make("eu-key")
    })
    const { layer, sent } = withBudget(budget, slowKey, success)
    return Effect.gen(function*() {
      const source = yield* Source
      const reading = yield* Effect.forkChild(source.page(request))
      for (let time = 0; time < 2; time++) {
        yield* TestClock.adjust("1 minute")
        assert.isEmpty(sent)
        hasSlots = true
        yield* changed
      }
      yield* finished(reading)
      assert.lengthOf(sent, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails with Unauthorized and is not sent if the account is no longer configured", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read({ account: "gone" }))
      assert.deepInclude(reason, { _tag: "Unauthorized", message: 'the configuration has no account "gone"' })
      assert.deepStrictEqual(sent, [])
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
        assert.deepStrictEqual(valuesOf(page), [{ id: "1" }])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("a number that a double cannot represent is returned as a string of its digits; all others are numbers (S1)", () => {
    const exact = "9007199254740992,-9007199254740992,1e308,0.1,-0,1.0,123456789.123456789012345"
    const inexact = "9007199254740993,-12345678901234567890,1e400"
    const rows = `[{"id":"1","n":[${exact},${inexact}],"s":"9007199254740993"},{"id":"2","n":1e23}]`
    const { layer } = withReplies({ body: `{"status":"success","data":{"next":null,"results":${rows}}}` })
    return Effect.gen(function*() {
      assert.deepStrictEqual(valuesOf(yield* yield* read()), [
        {
          id: "1",
          n: [...exact.split(",").map(Number), ...inexact.split(",")],
          s: "9007199254740993"
        },
        { id: "2", n: 1e23 }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("an empty page with a cursor is not the last page, and any 2xx status is a success (P6)", () => {
    const { layer } = withReplies({ status: 206, body: { status: "success", data: { next: "more", results: [] } } })
    return Effect.gen(function*() {
      assert.strictEqual((yield* yield* read()).next, "more")
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([
    { date: "Wed, 01 May 2024 10:00:00 GMT", expected: Date.UTC(2024, 4, 1, 10) },
    { date: "soon", expected: null },
    { date: "12", expected: null },
    { date: "-271821-04-20T00:00:00.000Z", expected: null },
    { date: "Wed, 31 Dec 1969 23:59:59 GMT", expected: null },
    { date: "Thu, 01 Jan 1970 00:00:00 GMT", expected: 0 },
    { date: "Fri, 31 Dec 9999 23:59:59 GMT", expected: Date.UTC(9999, 11, 31, 23, 59, 59) },
    { date: "Sat, 13 Sep 275760 00:00:00 GMT", expected: null },
    { date: undefined, expected: null }
  ])("returns the server's time, or null if it is unknown: $date (W5)", ({ date, expected }) => {
    const { layer } = withReplies({ ...success, headers: date === undefined ? {} : { date } })
    return Effect.gen(function*() {
      assert.strictEqual((yield* yield* read()).serverTime, expected)
    }).pipe(Effect.provide(layer))
  })
})

describe("error responses", () => {
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
  ])("$status $code ends the request immediately with $expected (C1–C5)", ({ code, expected, status }) => {
    const { layer, sent } = withReplies(refusal(status, code))
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, expected)
      assert.strictEqual(reason.code, code)
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("the message contains neither the API's text nor the key (I11)", () => {
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
      assert.strictEqual(reason.message, "status 400 · Bad request for …")
    }).pipe(Effect.provide(layer))
  })

  it.effect("the message has the known title of a known code, and the page of the API's log is passed on", () => {
    const logUrl = "https://app.example.com/logs/4f"
    const { layer } = withReplies({
      status: 404,
      body: {
        status: "error",
        error: {
          code: "PLATFORM.INTEGRATION_NOT_FOUND",
          title: "There is no such integration",
          message: "greenhouse:acme",
          log_url: logUrl
        }
      }
    })
    return Effect.gen(function*() {
      assert.deepInclude(reasonOf(yield* read()), {
        _tag: "Inactive",
        message: "status 404 · PLATFORM.INTEGRATION_NOT_FOUND · There is no such integration",
        logUrl
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([
    { body: "<!DOCTYPE html><p>Ada</p>", type: "text/html", says: "an HTML page (text/html)" },
    { body: '{"status":"success","data":{"res', type: "application/json", says: "broken or unexpected JSON" },
    { body: "", type: "application/json", says: "an empty body" },
    { body: gzipSync("x".repeat(999)).subarray(0, 20), type: "application/json", says: "corrupt gzip data" },
    { body: "Ada", type: "text/plain", says: "text that is not JSON" },
    {
      body: '{"status":"partial","data":{"results":[],"next":null}}',
      type: "application/json",
      says: "(application/json): not a response of the API"
    },
    {
      body: '{"data":{"results":[],"next":null}}',
      type: "application/json",
      says: "(application/json): not a response of the API"
    },
    { body: '{"status":"success","data":{}}', type: "application/json", says: "data.results is missing" },
    {
      body: '{"status":"success","data":{"results":[],"next":7}}',
      type: "application/json",
      says: "data.next is not a string"
    },
    {
      body: `{"status":"success","data":{"results":[],"next":"${"c".repeat(16_385)}"}}`,
      type: "application/json",
      says: "data.next is longer than 16384 characters"
    }
  ])("an unreadable response is requested three times, then fails with: $says (I7)", ({ body, says, type }) => {
    const { layer, sent } = withReplies({ body, headers: { "content-type": type } })
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, says)
      assert.notInclude(reason.message, "Ada")
      assert.strictEqual(sent.length, 3)
    }).pipe(Effect.provide(layer))
  })

  it.effect("unreadable responses of different sizes have the same message, so that their streams are shown as one", () => {
    const [short, long] = [`{"status":`, `{"status":"success","data":{"res`].map((body) => withReplies({ body }).layer)
    const message = Effect.map(read(), (exit) => reasonOf(exit).message)
    return Effect.gen(function*() {
      assert.strictEqual(yield* Effect.provide(message, short!), yield* Effect.provide(message, long!))
    })
  })

  it.effect("a page that is too large is requested with fewer rows, and so is every later page (S1)", () => {
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

  it.effect("a page with far more rows than requested is requested with fewer rows, and then ends the request (S1)", () => {
    const rows = Array.from({ length: 100_001 }, (_, row) => ({ id: String(row) }))
    const { layer, sent } = withReplies({ body: { status: "success", data: { next: null, results: rows } } })
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "the list has more than 100000 rows; the rest was not read")
      assert.deepStrictEqual(sent.slice(0, 5).map(({ url }) => url.searchParams.get("page_size")), [
        "250",
        "50",
        "10",
        "2",
        "1"
      ])
    }).pipe(Effect.provide(layer), Effect.provideService(References.MinimumLogLevel, "None"))
  })

  it.effect("a single row that is too large ends the request, and the next one starts with full pages (S1)", () => {
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

  it.effect("a 404 from another server reports that the URL is wrong", () => {
    const { layer } = withReplies({ status: 404, body: "<html>", headers: { "content-type": "text/html" } })
    return Effect.gen(function*() {
      const reason = reasonOf(yield* read())
      assert.strictEqual(reason._tag, "Unreadable")
      assert.include(reason.message, "the path does not exist at this URL")
      assert.include(reason.hint, "ROLLCALL_API_URL")
    }).pipe(Effect.provide(layer))
  })
})

describe("the source", () => {
  it.effect("counts requests by outcome, and rate-limit responses", () => {
    const { layer } = withReplies(limited({ "retry-after": "1" }), refusal(500, null), success)
    return Effect.gen(function*() {
      yield* read()
      const endpoint = "ats.application"
      assert.strictEqual(yield* count("rollcall_api_requests_total", { endpoint, outcome: "RateLimited" }), 1)
      assert.strictEqual(yield* count("rollcall_api_requests_total", { endpoint, outcome: "Transient" }), 1)
      assert.strictEqual(yield* count("rollcall_api_requests_total", { endpoint, outcome: "ok" }), 1)
      assert.strictEqual(yield* count("rollcall_api_throttled_total", {}), 1)
    }).pipe(Effect.provide(layer), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  it.effect("logs a requested pause of a minute or more, with the actual pause (R1)", () => {
    const logged: Array<unknown> = []
    const logger = Logger.make<unknown, void>(({ fiber }) => {
      logged.push(fiber.getRef(References.CurrentLogAnnotations))
    })
    const { layer } = withReplies(limited({ "retry-after": "59" }), limited({ "retry-after": "86400" }), success)
    return Effect.gen(function*() {
      yield* read()
      assert.deepStrictEqual(logged, [{ account: "eu", requested: "1d", waits: "15m" }])
    }).pipe(Effect.provide(layer), Effect.provide(Logger.layer([logger])))
  })
})
