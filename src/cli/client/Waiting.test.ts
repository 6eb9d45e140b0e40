import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { ApiClientError } from "./ApiClient.ts"
import { startAndWait, waitFor, withElapsed } from "./Waiting.ts"

const timeout = Option.some(Duration.seconds(20))
const hint = "look at the list"

describe("--timeout", () => {
  it.effect("ends a command whose request is not answered, and says that it may have been carried out", () =>
    Effect.gen(function*() {
      const command = startAndWait({ hint, timeout }, Effect.never, () => Effect.never)
      const fiber = yield* Effect.forkChild(Effect.flip(command), { startImmediately: true })
      yield* TestClock.adjust("20 seconds")
      const { message, hint: shown } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([message, shown], ["the process did not answer within 20s", hint])
    }))

  it.effect("limits the request and the wait together", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(
        startAndWait({ hint, timeout }, Effect.delay(Effect.succeed("accepted"), "15 seconds"), (answer, rest) =>
          Effect.succeed(
            [
              answer,
              Option.map(rest, ({ left }) =>
                Duration.toSeconds(left))
            ] as const
          )),
        { startImmediately: true }
      )
      yield* TestClock.adjust("15 seconds")
      assert.deepStrictEqual(yield* Fiber.join(fiber), ["accepted", Option.some(5)])
    }))
})

describe("a wait", () => {
  it.effect("for a process that accepts requests and answers none ends after a minute, not after sixty requests", () =>
    Effect.gen(function*() {
      const unresponsive = new ApiClientError({ reason: "unresponsive", message: "does not answer", hint: "" })
      const wait = waitFor({ subject: "it", hint, judge: () => Effect.succeed(null) }, {
        read: Effect.delay(Effect.fail(unresponsive), "30 seconds"),
        show: () => Effect.void,
        limit: Option.none()
      })
      const fiber = yield* Effect.forkChild(Effect.flip(wait), { startImmediately: true })
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(yield* Fiber.join(fiber), unresponsive)
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
