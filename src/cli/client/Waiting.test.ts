import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { startAndWait } from "./Waiting.ts"

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
