import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import * as OtlpClient from "./OtlpClient.ts"

const url = "https://collector.example/v1/traces?key=s3cr3t"

const begin = Effect.gen(function*() {
  const lines: Array<string> = []
  const collector = { status: 200, silent: false, retryAfter: "", requests: 0, header: "" }
  const headers: { value: Record<string, string> | string } = { value: { "x-key": "first" } }
  const server = HttpClient.make((request) =>
    Effect.suspend(() => {
      collector.requests++
      collector.header = request.headers["x-key"] ?? ""
      if (collector.silent) return Effect.never
      const own = collector.retryAfter === "" ? {} : { "retry-after": collector.retryAfter }
      return Effect.succeed(
        HttpClientResponse.fromWeb(request, new Response(null, { status: collector.status, headers: own }))
      )
    })
  )
  const client = yield* OtlpClient.make({
    signal: "traces",
    url,
    headers: Effect.sync(() => headers.value),
    timeout: Duration.seconds(10)
  }).pipe(Effect.provideService(HttpClient.HttpClient, server))
  const logger = Logger.make<unknown, void>(({ message }) => void lines.push(String(message)))
  const send = client.execute(HttpClientRequest.post(url)).pipe(
    Effect.exit,
    Effect.provide(Logger.layer([logger]))
  )
  const later = Effect.fnUntraced(function*(time: Duration.Input) {
    const fiber = yield* Effect.forkChild(send, { startImmediately: true })
    yield* TestClock.adjust(time)
    return yield* Fiber.join(fiber)
  })
  return { collector, headers, later, lines, send }
})

describe("the client of an exporter", () => {
  it.effect("logs the first failure and the first success after it, and nothing in between", () =>
    Effect.gen(function*() {
      const { collector, later, lines, send } = yield* begin
      yield* send
      assert.deepStrictEqual(lines, [])
      for (const status of [503, 400, 401]) {
        collector.status = status
        assert.isTrue(Exit.isFailure(yield* later("20 seconds")))
      }
      collector.status = 200
      yield* send
      yield* send
      assert.deepStrictEqual(lines, [
        "traces are not exported; they are dropped until the collector accepts them",
        "traces are exported again"
      ])
    }))

  it.effect("ends an export within its limit, however long the collector asks to wait", () =>
    Effect.gen(function*() {
      const { collector, later } = yield* begin
      collector.status = 429
      collector.retryAfter = "3600"
      assert.isTrue(Exit.isFailure(yield* later("10 seconds")))
      assert.strictEqual(collector.requests, 1)
      collector.silent = true
      assert.isTrue(Exit.isFailure(yield* later("10 seconds")))
    }))

  it.effect("tries a passing failure again, at most three times, and a refusal not at all", () =>
    Effect.gen(function*() {
      const { collector, later } = yield* begin
      collector.status = 503
      yield* later("10 seconds")
      assert.strictEqual(collector.requests, 4)
      collector.status = 400
      yield* later("10 seconds")
      assert.strictEqual(collector.requests, 5)
      collector.status = 302
      yield* later("10 seconds")
      assert.strictEqual(collector.requests, 6)
    }))

  it.effect("has at most four exports in progress, and a success that began before the failure does not end it", () =>
    Effect.gen(function*() {
      const { collector, lines, send } = yield* begin
      collector.silent = true
      const fibers = yield* Effect.forEach([1, 2, 3, 4], () => Effect.forkChild(send, { startImmediately: true }))
      assert.isTrue(Exit.isFailure(yield* send))
      assert.strictEqual(collector.requests, 4)
      assert.lengthOf(lines, 1)
      yield* TestClock.adjust("10 seconds")
      for (const fiber of fibers) assert.isTrue(Exit.isFailure(yield* Fiber.join(fiber)))
      assert.lengthOf(lines, 1)
      collector.silent = false
      assert.isTrue(Exit.isSuccess(yield* send))
      assert.lengthOf(lines, 2)
    }))

  it.effect("logs the first success after a failure even if our clock was set back in between (W4)", () =>
    Effect.gen(function*() {
      const { collector, later, lines, send } = yield* begin
      yield* TestClock.setTime(Date.parse("2026-03-02T12:00:00Z"))
      collector.status = 400
      yield* later("10 seconds")
      collector.status = 200
      yield* TestClock.setTime(Date.parse("2026-03-02T11:00:00Z"))
      yield* send
      assert.deepStrictEqual(lines.slice(1), ["traces are exported again"])
    }))

  it.effect("reads the headers for each export, and does not export while they cannot be used", () =>
    Effect.gen(function*() {
      const { collector, headers, send } = yield* begin
      yield* send
      assert.strictEqual(collector.header, "first")
      headers.value = { "x-key": "second" }
      yield* send
      assert.strictEqual(collector.header, "second")
      headers.value = "the headers cannot be used: item 1 is not <name>=<value>"
      assert.isTrue(Exit.isFailure(yield* send))
      assert.strictEqual(collector.requests, 2)
    }))
})
