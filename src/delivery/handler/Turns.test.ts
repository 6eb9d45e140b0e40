/** Writes and reads of handlers that wait for a request slot while the API enforces a pause. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Latch from "effect/Latch"
import * as Schedule from "effect/Schedule"
import { limiting, pass, sourceOf } from "../../../test/support/delivery/Limiting.ts"
import { action, makeWith } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { watchUncaught } from "../engine/UncaughtErrors.ts"

const trigger = "ats.application.created"
const link = { label: "Result", url: "https://x.example" }

const linking = (runs: { count: number } = { count: 0 }) =>
  Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
    trigger,
    { attempts: 1 },
    ({ recordId }) =>
      Effect.gen(function*() {
        runs.count++
        const api = yield* Plugin.Api
        yield* api.addResultLink(recordId, link)
      })
  )

/** The API has refused the first request, and the account pauses for these seconds. */
const waiting = Effect.fnUntraced(function*(seconds: number, plugin: Plugin.Plugin<unknown>) {
  const api = limiting(1, seconds)
  const rig = yield* makeWith(api)
  const first = yield* rig.start([plugin])
  yield* rig.append("a1")
  yield* rig.until(() => api.requests.length === 1)
  return { api, first, rig }
})

describe("a write that waits for a request slot", () => {
  it.effect("a write is done in the same attempt after a pause longer than the handler's time-out (R1)", () =>
    Effect.gen(function*() {
      const runs = { count: 0 }
      const { api, rig } = yield* waiting(45, linking(runs))
      yield* pass(40)
      assert.deepStrictEqual([...rig.intents], [])
      yield* pass(10)
      yield* rig.empty
      assert.deepStrictEqual(api.statuses(), [429, 200])
      assert.strictEqual(runs.count, 1)
    }))

  it.effect("a waiting write has no intent, and is sent only when stopped writes are resumed (X16)", () =>
    Effect.gen(function*() {
      const { api, rig } = yield* waiting(45, linking())
      yield* pass(5)
      yield* rig.deliveries.setSwitch({ _tag: "Writes" }, false, action)
      assert.deepStrictEqual([...rig.intents], [])
      yield* pass(120)
      assert.deepStrictEqual(api.statuses(), [429])
      assert.deepStrictEqual([...rig.intents], [])
      const [backlog] = yield* rig.deliveries.backlog
      assert.deepInclude(backlog, { dead: 0, running: 0 })
      yield* rig.deliveries.setSwitch({ _tag: "Writes" }, true, action)
      yield* rig.empty
      assert.deepStrictEqual(api.statuses(), [429, 200])
    }))

  it.effect("a waiting write is sent once, by the new process, after another process has taken over (X16)", () =>
    Effect.gen(function*() {
      const { api, rig } = yield* waiting(45, linking())
      yield* pass(5)
      yield* rig.start([linking()])
      yield* rig.empty
      yield* pass(60)
      assert.deepStrictEqual(api.statuses(), [429, 200])
    }))

  it.effect("a waiting write to a removed integration is not sent, and its dead letter names the integration", () =>
    Effect.gen(function*() {
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
        trigger,
        {},
        ({ recordId }) =>
          Effect.gen(function*() {
            const api = yield* Plugin.Api.for("lever:beta")
            yield* api.addResultLink(recordId, link)
          })
      )
      const { api, rig } = yield* waiting(45, plugin)
      yield* rig.setState("lever:beta", "removed")
      yield* pass(50)
      yield* rig.dead(1)
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 1 })
      assert.deepInclude(letter?.failure, { reason: "Permanent", refusal: "Inactive" })
      assert.include(letter?.failure.message, "lever:beta is not configured")
      assert.deepStrictEqual(api.statuses(), [429])
      assert.deepStrictEqual([...rig.intents], [])
    }))

  it.effect("a waiting write does not delay a shutdown: the next process sends it (L4)", () =>
    Effect.gen(function*() {
      const runs = { count: 0 }
      const { api, first, rig } = yield* waiting(900, linking(runs))
      yield* pass(2)
      const stopping = yield* Effect.forkChild(first.stop)
      yield* rig.until(() => stopping.pollUnsafe() !== undefined)
      yield* Fiber.join(stopping)
      assert.deepStrictEqual([...rig.intents], [])
      yield* rig.start([linking(runs)])
      yield* rig.empty
      assert.deepStrictEqual(api.statuses(), [429, 200])
      assert.strictEqual(runs.count, 2)
    }))
})

describe("concurrent writes", () => {
  it.effect("a waiting write does not interrupt a sent one when the process stops (L5)", () =>
    Effect.gen(function*() {
      const answer = yield* Latch.make(false)
      const paths: Array<string> = []
      const client = HttpClient.make((request, url) =>
        Effect.gen(function*() {
          paths.push(url.pathname)
          const isSlow = url.pathname.includes("slow")
          if (isSlow) yield* answer.await
          const body = isSlow
            ? { status: "success", data: {} }
            : {
              status: "error",
              error: { code: "PLATFORM.RATE_LIMIT_EXCEEDED", title: "", message: "", log_url: null }
            }
          const init = { status: isSlow ? 200 : 429, headers: { "retry-after": "900" } }
          return HttpClientResponse.fromWeb(request, new Response(JSON.stringify(body), init))
        })
      )
      const rig = yield* makeWith({ source: sourceOf(client) })
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(trigger, {}, () =>
        Effect.gen(function*() {
          const { addResultLink } = yield* Plugin.Api
          yield* Effect.all([addResultLink("slow", link), addResultLink("limited", link)], { concurrency: 2 })
        }))
      const first = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.until(() =>
        paths.length === 2
      )
      yield* pass(1)
      const stopping = yield* Effect.forkChild(first.stop)
      yield* pass(2)
      assert.isUndefined(stopping.pollUnsafe())
      yield* answer.open
      yield* rig.until(() =>
        stopping.pollUnsafe() !== undefined
      )
      assert.deepStrictEqual([...rig.intents], [])
    }))
})

describe("a sent write", () => {
  it.effect("a sent write gets its response before an uncaught error ends the attempt (L5)", () =>
    Effect.gen(function*() {
      yield* watchUncaught
      const answer = yield* Latch.make(false)
      let requests = 0
      const client = HttpClient.make((request) =>
        Effect.suspend(() => {
          requests++
          const response = new Response(JSON.stringify({ status: "success", data: {} }))
          return Effect.as(answer.await, HttpClientResponse.fromWeb(request, response))
        })
      )
      const rig = yield* makeWith({ source: sourceOf(client) })
      let runs = 0
      const exit = Effect.sync(() => {
        try {
          process.exit(1)
        } catch {
          // process.exit throws here
        }
      })
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
        trigger,
        {},
        ({ recordId }) =>
          Effect.gen(function*() {
            const { addResultLink } = yield* Plugin.Api
            if (runs++ > 0) return yield* Effect.asVoid(addResultLink(recordId, link))
            const onceSent = Effect.suspend(() => requests === 0 ? Effect.fail("not yet") : exit)
            yield* Effect.all([
              addResultLink(recordId, link),
              Effect.ignore(Effect.retry(onceSent, { times: 1_000, schedule: Schedule.spaced("1 second") }))
            ], { concurrency: 2 })
          })
      )
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* pass(5)
      yield* answer.open
      yield* pass(5)
      yield* rig.empty
      assert.deepStrictEqual([requests, runs], [1, 2])
    }))
})

describe("the timer of a handler", () => {
  it.effect("the timer is paused while a read waits for a request slot, and continues afterwards", () =>
    Effect.gen(function*() {
      const api = limiting(1, 45)
      const rig = yield* makeWith(api)
      const runs = { count: 0 }
      const ends: Array<number> = []
      const plugin = Plugin.make("p").on(
        trigger,
        { attempts: 1, timeout: "10 seconds" },
        ({ recordId }) =>
          Effect.gen(function*() {
            runs.count++
            const { live } = yield* Plugin.Api
            yield* Effect.sleep("4 seconds")
            yield* live("ats.application", recordId)
            ends.push(yield* Clock.currentTimeMillis)
            yield* Effect.never
          })
      )
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* pass(60)
      yield* rig.dead(1)
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 1 })
      assert.strictEqual(letter?.failure.reason, "TimedOut")
      // four seconds before the wait, six after it
      assert.approximately((letter?.failure.at ?? 0) - (ends[0] ?? 0), 6_000, 1_000)
      assert.deepStrictEqual(api.statuses(), [429, 200])
      assert.strictEqual(runs.count, 1)
    }))
})
