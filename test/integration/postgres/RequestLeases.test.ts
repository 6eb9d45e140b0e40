/** Processes that claim request slots of several accounts at the same moment, on a real PostgreSQL server. */
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { RequestLeases } from "../../../src/store/RequestLeases.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { emptyStoreOf } from "../../conformance/StoreSuites.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const database = emptyStoreOf(Server.ofFile())

const accounts = Array.from({ length: 21 }, (_, index) => `account ${String.fromCharCode(97 + index)}`)
const inTheMiddle = accounts[10]!

const claims = accounts.map((account) => ({
  account,
  duration: Duration.minutes(1),
  concurrency: 1,
  wanted: 1,
  keep: 0,
  pause: Duration.zero
}))

onServer("request slots of several accounts", () => {
  it.live("are claimed without a deadlock, even if two processes name the accounts in opposite orders (X9)", () =>
    Effect.gen(function*() {
      const store = Layer.provideMerge(Ports.layer, Postgres.client(yield* database))
      const process = Effect.map(Layer.build(Layer.fresh(store)), (context) => ({
        sql: Context.get(context, SqlClient),
        claim: Context.get(context, RequestLeases).claim
      }))
      const [holder, first, second] = [yield* process, yield* process, yield* process]
      const { sql } = holder
      // the rows of the accounts exist, and none has a lease
      yield* first.claim(claims)
      yield* first.claim(claims.map((claim) => ({ ...claim, wanted: 0 })))
      // a transaction sees the sessions of its first look, until this is cleared
      const waiting = Effect.andThen(
        sql`SELECT pg_stat_clear_snapshot()`,
        sql<{ count: number }>`
          SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      ).pipe(Effect.map(([row]) => row?.count))
      const claiming = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT account FROM request_accounts WHERE account = ${inTheMiddle} FOR UPDATE`
        const one = yield* Effect.forkChild(first.claim(claims))
        yield* Effect.repeat(waiting, { until: (count) => count === 1 })
        const other = yield* Effect.forkChild(second.claim(claims.toReversed()))
        yield* Effect.repeat(waiting, { until: (count) => count === 2 })
        return [one, other] as const
      }))
      const [one, other] = [yield* Fiber.join(claiming[0]), yield* Fiber.join(claiming[1])]
      for (const account of accounts) {
        assert.deepStrictEqual([one.get(account)?.slots, other.get(account)?.slots], [1, 0], account)
      }
      const [statistics] = yield* sql<{ deadlocks: number }>`
        SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
      assert.strictEqual(statistics?.deadlocks, 0)
    }))
})
