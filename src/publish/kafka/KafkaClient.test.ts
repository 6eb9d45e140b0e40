import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { begin, operationTimeout } from "./KafkaClient.ts"

describe("a transaction that does not begin in time", () => {
  for (const [transactionalId, advises] of [["rollcall-relay", true], [null, false]] as const) {
    it.effect(`${advises ? "names" : "without transactions does not name"} the setting that disables them (X10)`, () =>
      Effect.gen(function*() {
        const silent = { begin: () => new Promise<never>(() => {}) }
        const begun = yield* Effect.forkChild(Effect.flip(begin(silent, transactionalId)))
        yield* TestClock.adjust(operationTimeout)
        const { message } = yield* Fiber.join(begun)
        assert.include(message, "no response within 30 seconds")
        assert.include(message, "KAFKA_BROKERS")
        assert.strictEqual(message.includes("ROLLCALL_KAFKA_TRANSACTIONS=off"), advises)
      }))
  }
})
