import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { TestClock } from "effect/testing"
import { WrongTokens } from "./WrongTokens.ts"

const counted = Effect.map(
  Metric.snapshot,
  (all) => all.find(({ id }) => id === "rollcall_http_wrong_tokens_total")?.state as { count: number } | undefined
)

describe("a wrong token", () => {
  it.effect("is answered after a second, and beyond 64 waiting ones at once", () =>
    Effect.gen(function*() {
      const { penalize } = yield* WrongTokens
      const waiting = yield* Effect.forEach(Array.from({ length: 64 }), () => Effect.forkChild(penalize("192.0.2.1")))
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(waiting[0]?.pollUnsafe())
      assert.isFalse(yield* penalize("192.0.2.2"))
      yield* TestClock.adjust("1 milli")
      assert.deepStrictEqual(new Set(yield* Effect.forEach(waiting, Fiber.join)), new Set([true]))
      assert.strictEqual((yield* counted)?.count, 65)
      const next = yield* Effect.forkChild(penalize("192.0.2.1"))
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* Fiber.join(next))
    }).pipe(Effect.provide(WrongTokens.layer), Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("is logged at most twice a minute, with the number and the last address", () =>
    Effect.gen(function*() {
      const lines: Array<unknown> = []
      const logger = Logger.map(Logger.formatStructured, ({ annotations, message }) => {
        lines.push([message, annotations])
      })
      yield* Effect.gen(function*() {
        const { penalize } = yield* WrongTokens
        for (let index = 0; index < 200; index++) yield* Effect.forkChild(penalize(`192.0.2.${index}`))
        yield* TestClock.adjust("59 seconds")
        const text = "requests with a wrong token were refused"
        assert.deepStrictEqual(lines, [[text, { count: 1, address: "192.0.2.0" }]])
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(lines.slice(1), [[text, { count: 199, address: "192.0.2.199" }]])
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(lines.length, 2)
      }).pipe(Effect.provide([WrongTokens.layer, Logger.layer([logger])]))
    }))
})
