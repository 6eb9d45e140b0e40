import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { stripVTControlCharacters } from "node:util"
import { type DeliveryProgress, rangesOf } from "../../domain/DeliveryProgress.ts"
import { awaitDeliveries, progressOf, type SentDeliveries } from "./DeliveryWait.ts"
import { withElapsed } from "./Waiting.ts"

const sent = (count: number, seconds: number, kind: SentDeliveries["kind"] = "redrive"): SentDeliveries => ({
  kind,
  ranges: [{ first: 1, last: count }],
  sentAt: 0,
  dueAt: seconds * 1_000
})

/** Waits for deliveries that are as far as these numbers, one per second. The last one stays. */
const waiting = (
  deliveries: SentDeliveries,
  states: ReadonlyArray<DeliveryProgress>,
  timeout = Option.none<Duration.Duration>()
) =>
  Effect.gen(function*() {
    const shown: Array<string> = []
    let reads = 0
    const read = Effect.sync(() => states[Math.min(reads++, states.length - 1)]!)
    const show = (text: string) => Effect.sync(() => void shown.push(stripVTControlCharacters(text)))
    const fiber = yield* Effect.forkChild(
      Effect.result(
        awaitDeliveries(deliveries, { read, show, limit: Option.map(timeout, (whole) => ({ whole, left: whole })) })
      ),
      {
        startImmediately: true
      }
    )
    yield* TestClock.adjust("1 minute")
    return { result: yield* Fiber.join(fiber), shown }
  })

describe("a redrive with --wait", () => {
  it.effect("the time left counts from the command, which may have taken long", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("10 seconds")
      const { shown } = yield* waiting(sent(100, 0), [{ done: 50, open: 50, dead: 0 }, { done: 100, open: 0, dead: 0 }])
      assert.match(shown[0] ?? "", /10 s left/)
    }))

  it.effect("ends when no delivery is open, and shows the share, the failures and the time left until then", () =>
    Effect.gen(function*() {
      const end = { done: 3, open: 0, dead: 1 }
      const { result, shown } = yield* waiting(sent(4, 0), [
        { done: 0, open: 4, dead: 0 },
        { done: 1, open: 2, dead: 1 },
        end
      ])
      assert.deepStrictEqual(result._tag === "Success" ? result.success : null, end)
      assert.lengthOf(shown, 2)
      assert.match(shown[1] ?? "", /^redrive .* 50 % {2}2 of 4 deliveries {2}2\/s {2}1 s left, 1 failed again$/)
    }))

  it.effect("shows at least the time until the last delivery is due if they are spread", () =>
    Effect.gen(function*() {
      const { shown } = yield* waiting(sent(2, 600), [{ done: 1, open: 1, dead: 0 }, { done: 2, open: 0, dead: 0 }])
      assert.match(shown[0] ?? "", / {2}10 min 0 s left$/)
    }))

  it.effect("names the command, and counts the failures of a replay as such", () =>
    Effect.gen(function*() {
      const { shown } = yield* waiting(sent(4, 0, "replay"), [
        { done: 0, open: 4, dead: 0 },
        { done: 1, open: 2, dead: 1 },
        { done: 3, open: 0, dead: 1 }
      ])
      assert.match(shown[1] ?? "", /^replay .* 2 of 4 deliveries .* left, 1 failed$/)
    }))

  it.effect("fails after the timeout, and says that the deliveries continue", () =>
    Effect.gen(function*() {
      const { result } = yield* waiting(
        sent(1, 0),
        [{ done: 0, open: 1, dead: 0 }],
        Option.some(Duration.seconds(5))
      )
      const error = result._tag === "Failure" ? result.failure : null
      assert.strictEqual(error?.message, "the redrive of 1 delivery was not done within 5s")
      assert.include(String(error !== null && "hint" in error ? error.hint : ""), "It continues")
    }))

  it.effect("asks for a thousand ranges at a time, and adds up", () =>
    Effect.gen(function*() {
      const sizes: Array<number> = []
      const ranges = rangesOf(Array.from({ length: 2_300 }, (_, index) => 2 * index))
      const all = yield* progressOf(ranges, (some) => {
        sizes.push(some.length)
        return Effect.succeed({ done: some.length - 2, open: 1, dead: 1 })
      })
      assert.deepStrictEqual([sizes, all], [[1_000, 1_000, 300], { done: 2_294, open: 3, dead: 3 }])
    }))
})

describe("a request of unknown length", () => {
  it.effect("shows after two seconds how long it has taken, and what is left of the expected time", () =>
    Effect.gen(function*() {
      const shown: Array<string> = []
      const show = (text: string) => Effect.sync(() => void shown.push(text))
      const fiber = yield* Effect.forkChild(withElapsed(Effect.delay(Effect.succeed(7), "4500 millis"), show, 90), {
        startImmediately: true
      })
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(fiber), 7)
      assert.deepStrictEqual(shown, [
        "working for 3 s, about 1 min 27 s left",
        "working for 4 s, about 1 min 26 s left",
        ""
      ])
    }))
})
