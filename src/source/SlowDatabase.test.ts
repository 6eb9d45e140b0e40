/** Request slots of many accounts whose database takes long for each statement. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { CurrentTransformer } from "effect/sql/Statement"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import * as RequestScheduler from "./RequestScheduler.ts"
import * as SharedBudget from "./SharedBudget.ts"

const accounts = Array.from({ length: 20 }, (_, index) => `account ${index}`)
/** Of each statement between the begin and the commit of a transaction, which take no time here. */
const statementTime = "200 millis"

describe("the request budget that processes share", () => {
  it.effect("of twenty accounts lets requests start although each statement takes 200 ms, and a process that ends waits a second at most (X10)", () =>
    Effect.gen(function*() {
      const store = yield* Layer.build(MemoryStore.layer())
      const scope = yield* Scope.make()
      const budget = yield* Layer.buildWithScope(SharedBudget.layer, scope).pipe(
        Effect.provideContext(store),
        Effect.provideService(CurrentTransformer, (statement) => Effect.as(Effect.sleep(statementTime), statement))
      )
      const started = new Set<string>()
      for (const account of accounts) {
        const scheduler = yield* RequestScheduler.make({
          account,
          concurrency: 8,
          timeout: Duration.minutes(1),
          retryBase: Duration.seconds(1)
        }).pipe(Effect.provideContext(budget), Scope.provide(scope))
        const request = Effect.andThen(Effect.sync(() => started.add(account)), Effect.sleep("30 seconds"))
        yield* Effect.forkIn(scheduler.run("a:1", "poll")(request), scope)
      }
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual([...started].sort(), accounts.toSorted())

      // the process returns its slots, so time must go on while it ends
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 second")
      assert.isDefined(closing.pollUnsafe())
      yield* Fiber.join(closing)
    }))
})
