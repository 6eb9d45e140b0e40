import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import {
  finished,
  read,
  reasonOf,
  refusal,
  type Reply,
  request,
  type Sent,
  success,
  withAnswers
} from "../../test/support/source/Replies.ts"
import { incrementalModels } from "../api/Lists.ts"
import { type PageRequest, Source } from "./Source.ts"

const rowsOf = (sent: ReadonlyArray<Sent>) => sent.map(({ url }) => Number(url.searchParams.get("page_size")))
const gatewayTimeout: Reply = { status: 504, headers: { "content-type": "text/html" }, body: "<html>" }
/** Answers with `reply` above this number of rows. */
const above = (limit: number, reply: Reply) => ({ url }: Sent): Reply =>
  Number(url.searchParams.get("page_size")) > limit ? reply : success
const poll: Partial<PageRequest> = { updatedAfter: 0 }
const page: Partial<PageRequest> = { ...poll, cursor: "next" }
const quiet = Effect.provideService(References.MinimumLogLevel, "None")
const succeeded = (request: Partial<PageRequest>) => Effect.asVoid(Effect.flatten(read(request)))

const slow: ReadonlyArray<readonly [string, Reply]> = [
  ["504", gatewayTimeout],
  ["502", { ...gatewayTimeout, status: 502 }],
  ["503 without Retry-After", { ...gatewayTimeout, status: 503 }],
  ["the API's own 504", refusal(504, "PLATFORM.TASK_TIMED_OUT")],
  ["a time-out", { silent: true }],
  ["a connection that broke", { failure: Object.assign(new Error("reset"), { code: "ECONNRESET", syscall: "read" }) }]
]

describe("a page that takes the API too long", () => {
  it.effect.each(slow)("is requested with fewer rows, and so are the later pages of the run: %s", ([, reply]) => {
    const { layer, sent } = withAnswers(above(50, reply))
    return Effect.gen(function*() {
      yield* succeeded(poll)
      yield* succeeded(page)
      yield* succeeded(page)
      // 250 twice, and once more after the page of 50, which shows that it is not an outage
      assert.deepStrictEqual(rowsOf(sent), [250, 250, 50, 250, 50, 50])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("that is cut off is requested with fewer rows at once", () => {
    const { layer, sent } = withAnswers(above(10, { body: '{"status":"success","data":{"res' }))
    return Effect.gen(function*() {
      yield* succeeded(poll)
      assert.deepStrictEqual(rowsOf(sent), [250, 50, 10, 250])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect.each<readonly [string, Reply]>([
    ["503 with Retry-After", { ...gatewayTimeout, status: 503, headers: { "retry-after": "1" } }],
    ["500", refusal(500, null)],
    ["a page of a firewall", { ...gatewayTimeout, status: 403 }],
    ["a connection that was refused", { failure: Object.assign(new Error(""), { code: "X", syscall: "connect" }) }]
  ])("is not suspected after %s", ([, reply]) => {
    const { layer, sent } = withAnswers(() => reply)
    return Effect.gen(function*() {
      reasonOf(yield* read(poll))
      assert.deepStrictEqual([...new Set(rowsOf(sent))], [250])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("is not suspected after an outage: the page is read with all its rows, and so are the later pages", () => {
    let requests = 0
    const { layer, sent } = withAnswers(() => ++requests <= 3 ? gatewayTimeout : success)
    return Effect.gen(function*() {
      yield* succeeded(poll)
      yield* succeeded(page)
      assert.deepStrictEqual(rowsOf(sent), [250, 250, 50, 10, 250, 250])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("never makes more attempts than another failure, and an outage leaves the size as it was", () => {
    let isDown = true
    const { layer, sent } = withAnswers(() => isDown ? gatewayTimeout : success)
    return Effect.gen(function*() {
      reasonOf(yield* read(poll))
      assert.deepStrictEqual(rowsOf(sent), [250, 250, 50, 10, 2, 1])
      isDown = false
      yield* succeeded(poll)
      yield* succeeded(page)
      assert.deepStrictEqual(rowsOf(sent).slice(6), [1, 250, 250])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("has the largest size that works, if an outage hid that larger pages work", () => {
    let limit = 0
    const { layer, sent } = withAnswers((one) => above(limit, gatewayTimeout)(one))
    return Effect.gen(function*() {
      reasonOf(yield* read(poll))
      limit = 30
      yield* succeeded(poll)
      yield* succeeded(page)
      assert.deepStrictEqual(rowsOf(sent).slice(6), [1, 250, 5, 25, 125, 25])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("is found although all lists of the integration are slow, so that their failures open its circuit", () => {
    const { layer } = withAnswers(above(10, gatewayTimeout))
    return Effect.gen(function*() {
      const source = yield* Source
      const unread = new Set(incrementalModels)
      const readAll = Effect.forEach(
        incrementalModels,
        (model) =>
          !unread.has(model) ?
            Effect.void :
            Effect.map(Effect.exit(source.page({ ...request, ...poll, model })), (exit) => {
              if (Exit.isSuccess(exit)) unread.delete(model)
            }),
        { concurrency: "unbounded", discard: true }
      )
      for (let round = 0; round < 12 && unread.size > 0; round++) {
        yield* finished(yield* Effect.forkChild(readAll))
        yield* TestClock.adjust("1 minute")
      }
      assert.deepStrictEqual([...unread], [])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("grows again with the first page of a run, after a quarter of an hour, and never within a run", () => {
    let limit = 10
    const { layer, sent } = withAnswers((one) => above(limit, gatewayTimeout)(one))
    const requested = (request: Partial<PageRequest>) => {
      sent.length = 0
      return Effect.map(succeeded(request), () => rowsOf(sent))
    }
    return Effect.gen(function*() {
      assert.deepStrictEqual(yield* requested(poll), [250, 250, 50, 10, 250])
      limit = 250
      assert.deepStrictEqual(yield* requested(poll), [10])
      yield* TestClock.adjust("15 minutes")
      assert.deepStrictEqual(yield* requested(page), [10])
      assert.deepStrictEqual(yield* requested({ ...poll, ids: ["a"] }), [10])
      assert.deepStrictEqual(yield* requested(poll), [50])
      yield* TestClock.adjust("15 minutes")
      limit = 50
      // the larger page is tried once, and the size that worked is used at once
      assert.deepStrictEqual(yield* requested(poll), [250, 50])
      assert.deepStrictEqual(yield* requested(poll), [50])
      limit = 250
      yield* TestClock.adjust("15 minutes")
      assert.deepStrictEqual(yield* requested(poll), [250])
      assert.deepStrictEqual(yield* requested(page), [250])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("of a poll does not change the size of a sweep, which may be suspended between two pages", () => {
    let limit = 10
    const { layer, sent } = withAnswers((one) => above(limit, gatewayTimeout)(one))
    return Effect.gen(function*() {
      yield* succeeded({})
      yield* succeeded(poll)
      limit = 250
      yield* TestClock.adjust("15 minutes")
      yield* succeeded(poll)
      sent.length = 0
      yield* succeeded({ cursor: "next" })
      assert.deepStrictEqual(rowsOf(sent), [10])
    }).pipe(Effect.provide(layer), quiet)
  })
})

describe("the pages of a run never become larger", () => {
  const cut: Reply = { body: '{"status":"success","data":{"res' }

  it.effect("while a plugin reads the same list", () => {
    let limit = 10
    const { layer, sent } = withAnswers((one) => above(limit, cut)(one))
    return Effect.gen(function*() {
      yield* succeeded(poll)
      limit = 250
      yield* TestClock.adjust("15 minutes")
      yield* succeeded({ ...poll, priority: "write" })
      sent.length = 0
      yield* succeeded(page)
      assert.deepStrictEqual(rowsOf(sent), [10])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("while plugins read the same list at once", () => {
    let isFirst = true
    const { layer, sent } = withAnswers((one) => {
      if (one.url.searchParams.get("ids") === "a") return above(10, cut)(one)
      const reply: Reply = isFirst ? { silent: true } : success
      isFirst = false
      return reply
    })
    return Effect.gen(function*() {
      const other = yield* Effect.forkChild(succeeded({ priority: "write", ids: ["b"] }))
      yield* Effect.yieldNow
      yield* succeeded({ priority: "write", ids: ["a"] })
      yield* Fiber.join(other)
      assert.deepStrictEqual(rowsOf(sent), [250, 250, 50, 10, 250, 250])
      sent.length = 0
      yield* succeeded({ priority: "write", ids: ["a"], cursor: "next" })
      assert.deepStrictEqual(rowsOf(sent), [10])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("while another request of a plugin fails", () => {
    let limit = 10
    const { layer, sent } = withAnswers((one) =>
      one.url.searchParams.get("ids") === "b" ? { silent: true } : above(limit, cut)(one)
    )
    return Effect.gen(function*() {
      const other = yield* Effect.forkChild(read({ priority: "write", ids: ["b"] }))
      yield* Effect.yieldNow
      yield* succeeded({ priority: "write", ids: ["a"] })
      reasonOf(yield* Fiber.join(other))
      limit = 250
      sent.length = 0
      yield* succeeded({ priority: "write", ids: ["a"], cursor: "next" })
      assert.deepStrictEqual(rowsOf(sent), [1, 10])
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("after a page of which even one row was too large", () => {
    let limit = 10
    const { layer, sent } = withAnswers((one) => above(limit, { body: "x".repeat(2_000) })(one), { maxBytes: 1_000 })
    return Effect.gen(function*() {
      yield* succeeded({})
      limit = 0
      reasonOf(yield* read({ cursor: "next" }))
      limit = 250
      sent.length = 0
      yield* succeeded({ cursor: "next" })
      assert.deepStrictEqual(rowsOf(sent), [10])
    }).pipe(Effect.provide(layer), quiet)
  })
})

describe("the settings of requests", () => {
  const settings = {
    accounts: {
      eu: {
        url: "https://api.example.org/v1",
        key: Effect.succeed(Redacted.make("eu-key")),
        pageSize: 100,
        requestTimeout: Duration.seconds(90)
      }
    },
    integrations: [{ id: "workday:acme", account: "eu", pageSize: 20, requestTimeout: Duration.seconds(10) }]
  }
  it.effect("are those of the account, or of the integration if it has its own", () => {
    const { layer, sent } = withAnswers(above(25, { silent: true }), settings)
    return Effect.gen(function*() {
      yield* succeeded({ ...poll, integration: "workday:acme" })
      yield* succeeded(poll)
      assert.deepStrictEqual(rowsOf(sent), [20, 100, 100, 20, 100])
      assert.isAtLeast((sent[2]?.at ?? 0) - (sent[1]?.at ?? 0), 90_000)
    }).pipe(Effect.provide(layer), quiet)
  })

  it.effect("limit the time of a request of the integration", () => {
    const { layer, sent } = withAnswers(() => ({ silent: true }), settings)
    return Effect.gen(function*() {
      const { message } = reasonOf(yield* read({ ...poll, integration: "workday:acme" }))
      assert.strictEqual(message, "the API does not answer: no complete response within 10s")
      assert.isBelow((sent[1]?.at ?? 0) - (sent[0]?.at ?? 0), 12_000)
    }).pipe(Effect.provide(layer), quiet)
  })
})
