/** Processes that call each other through a real PostgreSQL server, each with its own connections. */
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { randomUUID } from "node:crypto"
import { CallError, Calls, handler, method } from "../../../src/fleet/Calls.ts"
import * as QueuedCalls from "../../../src/fleet/QueuedCalls.ts"
import { CallQueue } from "../../../src/store/CallQueue.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { Store } from "../../../src/store/Store.ts"
import { emptyStoreOf } from "../../conformance/StoreSuites.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const database = emptyStoreOf(Server.ofFile())

const scope = "capture/12"
const double = method("double", {
  check: "rollcall streams list",
  payload: Schema.Number,
  success: Schema.Number,
  error: Schema.Never
})

const setup = Effect.gen(function*() {
  const store = Layer.provideMerge(Ports.layer, Postgres.client(yield* database))
  const process = Effect.gen(function*() {
    const context = yield* Layer.build(Layer.fresh(Layer.provideMerge(QueuedCalls.layer, store)))
    const executed: Array<number> = []
    const calls = Context.get(context, Calls)
    const { takeOwnership } = Context.get(context, Store)
    return {
      calls,
      executed,
      queue: Context.get(context, CallQueue),
      sql: Context.get(context, SqlClient),
      take: takeOwnership(scope),
      /** Takes the scope over and serves it; each call lasts for this time. */
      own: Effect.fnUntraced(function*(lasts: Duration.Input) {
        yield* takeOwnership(scope)
        const serving = yield* Scope.fork(yield* Effect.scope)
        const execute = (value: number) =>
          Effect.suspend(() => {
            executed.push(value)
            return Effect.delay(Effect.succeed(2 * value), lasts)
          })
        yield* Scope.provide(calls.serve(scope, [handler(double, execute)]), serving)
        return Scope.close(serving, Exit.void)
      })
    }
  })
  return [yield* process, yield* process, yield* process] as const
})

const numbers = Array.from({ length: 200 }, (_, index) => index)
const callOf = (id: string) => ({
  id,
  scope,
  method: "double",
  payload: "1",
  actor: { actor: "operate token", address: null },
  patience: Duration.seconds(10)
})

onServer("calls on PostgreSQL", () => {
  it.live("are executed by the owner, 200 at the same time", () =>
    Effect.gen(function*() {
      const [caller, owner] = yield* setup
      yield* owner.own("0 seconds")
      const results = yield* Effect.forEach(numbers, (value) => caller.calls.call(scope, double, value), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(results, numbers.map((value) => 2 * value))
      assert.deepStrictEqual(owner.executed.toSorted((a, b) => a - b), numbers)
    }))

  it.live("are executed at most once while their scope moves, and one that is reported as not taken never is (X9)", () =>
    Effect.gen(function*() {
      const [caller, first, second] = yield* setup
      const release = yield* first.own("5 millis")
      const calling = yield* Effect.forkChild(Effect.forEach(
        numbers,
        (value) => Effect.delay(Effect.exit(caller.calls.call(scope, double, value)), `${value * 10} millis`),
        { concurrency: "unbounded" }
      ))
      yield* Effect.sleep("700 millis")
      // frozen at this moment: it still serves, and another process has taken over
      yield* second.own("5 millis")
      yield* Effect.sleep("600 millis")
      yield* release
      const exits = yield* Fiber.join(calling)
      const executed = [...first.executed, ...second.executed]
      assert.strictEqual(new Set(executed).size, executed.length)
      for (const [value, exit] of exits.entries()) {
        if (Exit.isSuccess(exit)) {
          assert.strictEqual(exit.value, 2 * value)
          assert.include(executed, value)
          continue
        }
        const error = yield* Effect.flip(exit)
        assert.instanceOf(error, CallError)
        if (error instanceof CallError && error.reason._tag === "NotTaken") assert.notInclude(executed, value)
      }
      assert.isNotEmpty(second.executed)
    }))

  it.live("are claimed once if another process takes over at the same moment, and the caller sees that it did (X20)", () =>
    Effect.gen(function*() {
      const [caller, older, newer] = yield* setup
      for (let round = 0; round < 20; round++) {
        const id = randomUUID()
        yield* older.take
        yield* caller.queue.submit(callOf(id))
        const [claimed] = yield* Effect.all([older.queue.claim(scope), newer.take], { concurrency: "unbounded" })
        assert.lengthOf([...claimed, ...yield* newer.queue.claim(scope)], 1)
        assert.strictEqual((yield* caller.queue.look([id]))[0]?.owned, claimed.length === 0)
      }
    }))

  it.live("make a takeover wait while they are claimed, and are then claimed only after it (X20)", () =>
    Effect.gen(function*() {
      const [caller, older, newer] = yield* setup
      const { sql } = caller
      yield* older.take
      yield* caller.queue.submit(callOf(randomUUID()))
      // a transaction sees the sessions of its first look, until this is cleared
      const waits = Effect.andThen(
        sql`SELECT pg_stat_clear_snapshot()`,
        sql<{ for: string }>`
        SELECT wait_event AS for FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      )
        .pipe(Effect.map((rows) => rows.map((row) => row.for).sort()))
      const [claiming, taking, again] = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT id FROM calls FOR UPDATE`
        const claiming = yield* Effect.forkChild(older.queue.claim(scope))
        yield* Effect.repeat(waits, { until: ({ length }) => length === 1 })
        const taking = yield* Effect.forkChild(newer.take)
        yield* Effect.repeat(waits, { until: ({ length }) => length === 2 || taking.pollUnsafe() !== undefined })
        assert.isUndefined(taking.pollUnsafe())
        const again = yield* Effect.forkChild(older.queue.claim(scope))
        // not for the call, which the first claim waits for
        assert.deepStrictEqual(yield* Effect.repeat(waits, { until: ({ length }) => length === 3 }), [
          "advisory",
          "advisory",
          "transactionid"
        ])
        return [claiming, taking, again] as const
      }))
      assert.lengthOf(yield* Fiber.join(claiming), 1)
      yield* Fiber.join(taking)
      assert.lengthOf(yield* Fiber.join(again), 0)
    }))

  it.live("are either withdrawn or claimed if both happen at the same moment", () =>
    Effect.gen(function*() {
      const [caller, owner] = yield* setup
      yield* owner.take
      for (let round = 0; round < 20; round++) {
        const id = randomUUID()
        yield* caller.queue.submit(callOf(id))
        const [withdrawn, claimed] = yield* Effect.all(
          [caller.queue.remove([id], "waiting"), owner.queue.claim(scope)],
          { concurrency: "unbounded" }
        )
        assert.strictEqual(withdrawn.length + claimed.length, 1)
        yield* caller.queue.remove([id])
      }
    }))
})
