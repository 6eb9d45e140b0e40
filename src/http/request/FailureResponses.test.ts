/** The log lines of a request that fails because of the store. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { Damaged, OlderCopy, StoreError, Unavailable } from "../../store/Store.ts"
import { toStoreUnavailable } from "./FailureResponses.ts"

describe("a request that the store does not answer", () => {
  it.effect.each([
    { name: "nothing in an outage", reason: new Unavailable({ operation: "log", cause: null }), logged: 0 },
    { name: "nothing while an older copy answers (X14)", reason: new OlderCopy({ missing: 1 }), logged: 0 },
    { name: "what else is wrong", reason: new Damaged({ message: "row 1" }), logged: 1 }
  ])("logs $name", ({ logged, reason }) => {
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const away = yield* Effect.flip(toStoreUnavailable(new StoreError({ reason })))
      assert.strictEqual(away.detail, reason.hint)
      assert.strictEqual(lines.length, logged)
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])))
  })
})
