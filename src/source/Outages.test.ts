import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { finished, type Reply, request, success, withReplies } from "../../test/support/source/Replies.ts"
import * as Outages from "./Outages.ts"
import { Rejected, SourceError, Transient } from "./Source.ts"
import { Source } from "./Source.ts"

/** Log lines with the second at which each was logged. */
const logged = () => {
  const lines: Array<{ readonly second: number; readonly text: string; readonly data: object }> = []
  const logger = Logger.make<unknown, void>(({ date, fiber, message }) => {
    lines.push({
      second: date.getTime() / 1000,
      text: String(message),
      data: { ...fiber.getRef(References.CurrentLogAnnotations) }
    })
  })
  return { lines, layer: Logger.layer([logger]) }
}

const down = Effect.fail(new SourceError({ reason: new Transient({ code: null, message: "ECONNREFUSED" }) }))
const refuses = Effect.fail(new SourceError({ reason: new Rejected({ code: null, message: "status 400" }) }))

describe("Outages", () => {
  it.effect("an API that refuses connections is logged once within five seconds, and once when it answers again", () => {
    const { layer, lines } = logged()
    const refused: Reply = {
      failure: Object.assign(new Error("connect"), { code: "ECONNREFUSED", syscall: "connect" })
    }
    const replies = withReplies(...Array.from({ length: 8 }, () => refused), success)
    return Effect.gen(function*() {
      const { page } = yield* Source
      const first = yield* finished(yield* Effect.forkChild(page(request)))
      assert.isTrue(Exit.isFailure(first))
      assert.isAbove(lines.length, 0)
      assert.isAtMost(lines[0]!.second, 5)
      const second = yield* finished(yield* Effect.forkChild(page(request)))
      assert.isTrue(Exit.isSuccess(second))
      assert.deepStrictEqual(lines.map(({ text }) => text.split(";")[0]), [
        "requests to the API fail and are retried",
        "the API answers again"
      ])
      assert.deepStrictEqual(lines[0]?.data, {
        account: "eu",
        integrations: request.integration,
        error: "the API does not answer: the connection failed (ECONNREFUSED)"
      })
    }).pipe(Effect.provide(replies.layer), Effect.provide(layer))
  })

  const watching = Effect.map(
    Outages.make("eu"),
    ({ watch }) => (answer: Effect.Effect<void, SourceError>, of: string | null = "a:1") =>
      Effect.exit(watch(of)(answer))
  )

  it.effect("a failure that ends within three seconds is not logged, and an error response ends it", () => {
    const { layer, lines } = logged()
    return Effect.gen(function*() {
      const ask = yield* watching
      for (const answer of [Effect.void, refuses]) {
        yield* ask(down)
        yield* TestClock.adjust("2 seconds")
        yield* ask(answer)
        yield* TestClock.adjust("10 seconds")
      }
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("an integration that keeps failing while another one responds is one outage", () => {
    const { layer, lines } = logged()
    return Effect.gen(function*() {
      const ask = yield* watching
      for (let round = 0; round < 5; round++) {
        yield* ask(down)
        yield* ask(Effect.void, "b:2")
        yield* TestClock.adjust("1 minute")
      }
      assert.strictEqual(lines.length, 1)
      yield* ask(Effect.void)
      assert.strictEqual(lines.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("the line names up to five of the integrations that fail, and none that respond", () => {
    const { layer, lines } = logged()
    return Effect.gen(function*() {
      const ask = yield* watching
      yield* ask(Effect.void, "ok:1")
      yield* ask(down, null)
      for (const name of ["a:1", "b:2", "c:3", "d:4", "e:5", "f:6", "g:7"]) yield* ask(down, name)
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(lines.map(({ data }) => data), [{
        account: "eu",
        integrations: "a:1, b:2, c:3, d:4, e:5 and 2 more",
        error: "ECONNREFUSED"
      }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("an integration that is no longer read does not prevent the next outage from being logged", () => {
    const { layer, lines } = logged()
    return Effect.gen(function*() {
      const ask = yield* watching
      yield* ask(down, "gone:1")
      yield* TestClock.adjust("2 hours")
      yield* ask(Effect.void)
      yield* ask(down)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(lines.filter(({ text }) => text.startsWith("requests to the API fail")).length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("any response of the account ends a failure of the account's own requests", () => {
    const { layer, lines } = logged()
    return Effect.gen(function*() {
      const ask = yield* watching
      yield* ask(down, null)
      yield* ask(down)
      yield* TestClock.adjust("1 minute")
      yield* ask(Effect.void)
      assert.deepStrictEqual(lines.map(({ text }) => text.split(";")[0]), [
        "requests to the API fail and are retried",
        "the API answers again"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("an interrupted request is not logged as an outage", () => {
    const { layer, lines } = logged()
    return Effect.gen(function*() {
      const ask = yield* watching
      yield* ask(Effect.interrupt)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.provide(layer))
  })
})
