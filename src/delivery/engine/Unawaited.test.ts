/** How the engine runs async functions that do not await their calls. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { make, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

type Handle = Plugin.HandlerFunction<Plugin.EventOf<"ats.application.created">, {}>
const hasty = (handle: Handle, options: Plugin.EventOptions = {}) =>
  Plugin.make("hasty", { needs: { writes: ["addResultLink"] } }).on(
    "ats.application.created",
    options,
    handle
  )
const link = { label: "Result", url: "https://x.example" }

const letters = (rig: Rig) =>
  Effect.map(rig.deliveries.deadLetters({ limit: 10 }), (letters) => letters.map(({ failure }) => failure))

describe("a write that is not awaited", () => {
  it.effect("a delivery is settled only after a write that was not awaited has its result (L22)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const answered = yield* Deferred.make<{}>()
      rig.script.answer = () => Deferred.await(answered)
      let returned = false
      yield* rig.start([hasty(async ({ recordId }, { api }) => {
        void api.addResultLink(recordId, link)
        returned = true
      })])
      yield* rig.append("a1")
      yield* rig.until(() => returned && rig.sent.length === 1)
      for (let turn = 0; turn < 20; turn++) yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
      assert.deepStrictEqual((yield* rig.deliveries.backlog).map(({ running }) => running), [1])
      yield* Deferred.succeed(answered, {})
      yield* rig.empty
    }))

  it.effect("a write that was not awaited ends before its failed attempt; the next attempt gets its result (L22)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const answered = yield* Deferred.make<{}>()
      rig.script.answer = () => Deferred.await(answered)
      let attempts = 0
      yield* rig.start([hasty(async ({ recordId }, { api }) => {
        const written = api.addResultLink(recordId, link)
        if (attempts++ === 0) throw new Plugin.Transient({ message: "something else" })
        await written
      })])
      yield* rig.append("a1")
      yield* rig.until(() => rig.sent.length === 1)
      yield* TestClock.adjust("2 seconds")
      yield* Deferred.succeed(answered, {})
      yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.later === 1)
      yield* TestClock.adjust("1 second")
      yield* rig.empty
      assert.deepStrictEqual([attempts, rig.sent.length], [2, 1])
    }))

  it.effect("a write that was not awaited and never ends is bounded by the time-out (L22)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = () => Effect.never
      yield* rig.start([
        hasty(async ({ recordId }, { api }) => void api.addResultLink(recordId, link), { attempts: 1 })
      ])
      yield* rig.append("a1")
      yield* rig.until(() => rig.sent.length === 1)
      yield* TestClock.adjust("30 seconds")
      yield* rig.dead(1)
      assert.deepStrictEqual((yield* letters(rig)).map(({ reason }) => reason), ["TimedOut"])
    }))
})
