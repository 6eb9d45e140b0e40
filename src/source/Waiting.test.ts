/** The number of retries of a request, and the waits of an account. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { TestClock } from "effect/testing"
import {
  finished,
  gaps,
  limited,
  macrotask,
  read,
  reasonOf,
  refusal,
  request,
  step,
  success,
  withReplies
} from "../../test/support/source/Replies.ts"
import { AccountStatus } from "./AccountStatus.ts"
import { Source } from "./Source.ts"

describe("retries", () => {
  it.effect("end after six attempts, with doubling and jittered delays", () => {
    const { layer, sent } = withReplies(refusal(500, "PLATFORM.UNKNOWN_ERROR"))
    return Effect.gen(function*() {
      assert.strictEqual(reasonOf(yield* read())._tag, "Transient")
      assert.strictEqual(sent.length, 6)
      gaps(sent).forEach((gap, index) => {
        assert.isAtLeast(gap, 0.8 * 1000 * 2 ** index - step)
        assert.isAtMost(gap, 1.2 * 1000 * 2 ** index + step)
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("wait as long as a 503 requests, without delaying other integrations", () => {
    const { layer, sent } = withReplies(refusal(503, null, { "retry-after": "45" }), success)
    return Effect.gen(function*() {
      const source = yield* Source
      const first = yield* Effect.forkChild(source.page(request))
      yield* TestClock.adjust("5 seconds")
      yield* read({ integration: "b:2" })
      yield* finished(first)
      assert.isBelow(sent[1]?.at ?? 0, 6_000)
      assert.isAtLeast(sent[2]?.at ?? 0, 45_000)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a request without a response times out after a minute (R3)", () => {
    const { layer, sent } = withReplies({ silent: true }, success)
    return Effect.gen(function*() {
      assert.isTrue(Exit.isSuccess(yield* read()))
      assert.isAtLeast(gaps(sent)[0] ?? 0, 60_000)
    }).pipe(Effect.provide(layer))
  })
})

describe("rate limits", () => {
  const date = "Wed, 01 May 2024 10:00:00 GMT"
  it.effect.each([
    { headers: { "retry-after": "7" }, from: 7_000, to: 7_000 },
    { headers: { "retry-after": "0.5" }, from: 500, to: 500 },
    { headers: { "retry-after": "Wed, 01 May 2024 10:00:09 GMT", date }, from: 9_000, to: 9_000 },
    { headers: { "retry-after": "Wed, 01 May 2024 09:00:00 GMT", date }, from: 800, to: 1_200 },
    { headers: { "retry-after": "0" }, from: 800, to: 1_200 },
    { headers: { "retry-after": "-5" }, from: 800, to: 1_200 },
    { headers: { "retry-after": "later" }, from: 800, to: 1_200 },
    { headers: {}, from: 800, to: 1_200 },
    { headers: { "retry-after": "999999999999" }, from: 900_000, to: 900_000 }
  ])("$headers delays the next request, up to the maximum (R1)", ({ from, headers, to }) => {
    const { layer, sent } = withReplies(limited(headers), success)
    return Effect.gen(function*() {
      assert.isTrue(Exit.isSuccess(yield* read()))
      assert.isAtLeast(gaps(sent)[0] ?? 0, from)
      assert.isAtMost(gaps(sent)[0] ?? 0, to + step)
    }).pipe(Effect.provide(layer))
  })

  it.effect("an account that waits is named with the time until which it waits, and no other account (R1)", () => {
    const { layer } = withReplies(limited({ "retry-after": "90" }), success)
    return Effect.gen(function*() {
      const [paused, source] = [yield* AccountStatus, yield* Source]
      assert.isNull(yield* paused.remark)
      const fiber = yield* Effect.forkChild(source.page(request))
      yield* macrotask
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(
        yield* paused.remark,
        "account eu is rate limited until 1970-01-01T00:01:30.000Z: the API requested a pause, so Rollcall sends no requests until then"
      )
      yield* finished(fiber)
      assert.isNull(yield* paused.remark)
    }).pipe(Effect.provide(layer))
  })

  it.effect("one integration's 429 pauses every integration of the account, and no other account (R1)", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "60" }), success)
    return Effect.gen(function*() {
      const source = yield* Source
      const fibers = [yield* Effect.forkChild(source.page(request))]
      yield* macrotask
      yield* TestClock.adjust("1 second")
      fibers.push(yield* Effect.forkChild(source.page({ ...request, integration: "b:2", priority: "confirm" })))
      fibers.push(yield* Effect.forkChild(source.page({ ...request, account: "us" })))
      for (const fiber of fibers) yield* finished(fiber)
      const times = (host: string) => sent.filter(({ url }) => url.hostname === host).map(({ at }) => at)
      assert.deepStrictEqual(times("us.example.org"), [1_000])
      assert.strictEqual(times("api.example.org").length, 3)
      for (const at of times("api.example.org").slice(1)) assert.isAtLeast(at, 60_000)
    }).pipe(Effect.provide(layer))
  })

  it.effect("after the headers of a rate-limit response no other request is sent, even before its body is read (R1)", () => {
    const { layer, sent } = withReplies(...Array.from({ length: 8 }, () => limited({ "retry-after": "60" })), success)
    return Effect.gen(function*() {
      const source = yield* Source
      const fibers = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, i) => ({ ...request, integration: `a:${i}` })),
        (each) => Effect.forkChild(source.page(each))
      )
      for (const fiber of fibers) yield* finished(fiber)
      assert.deepStrictEqual(sent.map(({ at }) => at < 60_000).indexOf(false), 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("rate-limit pauses do not use up retries, but their number is limited (R1)", () => {
    const patient = withReplies(...Array.from({ length: 12 }, () => limited({ "retry-after": "1" })), success)
    const endless = withReplies(limited({ "retry-after": "1" }))
    return Effect.gen(function*() {
      assert.isTrue(Exit.isSuccess(yield* read().pipe(Effect.provide(patient.layer))))
      const reason = reasonOf(yield* read().pipe(Effect.provide(endless.layer)))
      assert.strictEqual(reason._tag, "RateLimited")
      assert.propertyVal(reason, "retryAfter", 1_000)
      assert.strictEqual(endless.sent.length, 13)
    })
  })

  it.effect.each([
    { headers: { "ratelimit-remaining": "0", "ratelimit-reset": "20" }, waits: 20_000 },
    { headers: { "ratelimit-remaining": "0", "ratelimit-reset": "1714557620", date }, waits: 20_000 },
    { headers: { "ratelimit-remaining": "1", "ratelimit-reset": "20" }, waits: 0 },
    { headers: { "ratelimit-remaining": "0" }, waits: 0 },
    { headers: { "ratelimit-remaining": "none", "ratelimit-reset": "20" }, waits: 0 }
  ])("$headers delays the account's next request by $waits ms (R2)", ({ headers, waits }) => {
    const { layer, sent } = withReplies({ ...success, headers }, success)
    return Effect.gen(function*() {
      yield* read()
      const before = yield* Clock.currentTimeMillis
      yield* read({ integration: "b:2" })
      assert.strictEqual((sent[1]?.at ?? 0) - before, waits)
    }).pipe(Effect.provide(layer))
  })
})
