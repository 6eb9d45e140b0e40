import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { Store, StoreError, Unavailable } from "../store/Store.ts"
import { KeyWatch } from "./KeyWatch.ts"

const unavailable = new StoreError({ reason: new Unavailable({ operation: "missingKeys", cause: null }) })

describe("the watch of the keys of a store", () => {
  it.effect("stops the work while a key is missing, says which, and keeps its answer while the store is unavailable", () =>
    Effect.gen(function*() {
      let found: Effect.Effect<ReadonlyArray<string>, StoreError> = Effect.succeed([])
      const store = Layer.mock(Store)({
        identity: { store: "s", generation: 1 },
        isNew: false,
        encryptionKey: null,
        missingKeys: Effect.suspend(() => found)
      })
      yield* Effect.gen(function*() {
        const { problem, whileComplete } = yield* KeyWatch
        const steps: Array<string> = []
        const step = (text: string) => Effect.sync(() => void steps.push(text))
        const work = Effect.onInterrupt(Effect.andThen(step("starts"), Effect.never), () => step("is handed over"))
        yield* Effect.forkScoped(whileComplete(work))
        /** The answer a second after the store finds this. */
        const after = Effect.fnUntraced(function*(next: typeof found) {
          found = next
          yield* TestClock.adjust("1 second")
          const said = yield* problem
          return [steps.splice(0), said === null ? null : /the keys? ([^,]*)/.exec(said)?.[1]]
        })
        assert.deepStrictEqual(yield* after(Effect.succeed([])), [["starts"], null])
        assert.deepStrictEqual(yield* after(Effect.fail(unavailable)), [[], null])
        assert.deepStrictEqual(yield* after(Effect.succeed(["k1"])), [["is handed over"], "k1"])
        assert.deepStrictEqual(yield* after(Effect.fail(unavailable)), [[], "k1"])
        assert.deepStrictEqual(yield* after(Effect.succeed(["k2"])), [[], "k2"])
        assert.deepStrictEqual(yield* after(Effect.succeed([])), [["starts"], null])
      }).pipe(Effect.provide(Layer.provide(KeyWatch.layer, store)), Effect.scoped)
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))
})
