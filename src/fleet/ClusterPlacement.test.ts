/** The placement over a SQLite database, whose locks are the same rows as in PostgreSQL. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as References from "effect/References"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { TestClock } from "effect/testing"
import { captureScopes, dispatchScope } from "../domain/Shard.ts"
import { connectionOf } from "../store/sql/Connection.ts"
import { runMissing } from "../store/sql/Migrations.ts"
import * as Sqlite from "../store/sqlite/Sqlite.ts"
import { misconfigured, StoreError, Unavailable } from "../store/Store.ts"
import { StoreFault } from "../store/StoreFault.ts"
import * as ClusterPlacement from "./ClusterPlacement.ts"
import { Placement, PlacementEngine } from "./Placement.ts"

/** Longer than a process needs for its first shard, shorter than it waits for one. */
const soon = "2 seconds"

/** A process that runs a singleton for each shard, and one without a shard. */
const join = Effect.fnUntraced(function*(process: string, database: Layer.Layer<SqlClient.SqlClient, StoreError>) {
  const context = yield* Layer.build(Layer.fresh(Placement.layer))
  const { joined } = Context.get(context, PlacementEngine)
  const placed: Array<string> = []
  const readiness: Array<boolean> = []
  for (const name of [dispatchScope, ...captureScopes]) {
    const run = Effect.sync(() => {
      placed.push(name)
      readiness.push(joined.isOpen())
    })
    yield* Context.get(context, Placement).singleton(name, Effect.andThen(run, Effect.never))
  }
  const run = ClusterPlacement.run(process, database, runMissing)
  const ended = yield* Effect.forkScoped(Effect.provideContext(run, context))
  return { joined, placed, readiness, ended }
})

const refusal = new SqlError({ reason: new ConnectionError({ cause: new Error("refused") }) })

const unavailable = new StoreError({ reason: new Unavailable({ operation: "open", cause: null }) })

/** A new database; it refuses one statement, for example 2 = the second one. */
const database = (refused: number | null = null) =>
  Effect.gen(function*() {
    const { connection, isTransaction } = yield* Sqlite.session({ file: ":memory:" })
    let statements = 0
    const counted = connectionOf((sql, params) =>
      Effect.suspend(() => ++statements === refused ? Effect.fail(refusal) : connection.execute(sql, params, undefined))
    )
    const client = yield* SqlClient.make({
      ...SqlClient.makeSqliteAcquirers({
        connection: Effect.succeed(counted),
        semaphore: yield* Semaphore.make(1),
        isTransaction
      }),
      compiler: Statement.makeCompilerSqlite(),
      driver: "node-sqlite",
      spanAttributes: []
    }).pipe(Effect.provide(Reactivity.layer))
    return Layer.succeed(SqlClient.SqlClient, client)
  })

/** Another process that holds all locks for as long as the test runs. */
const takeAllLocks = (database: Layer.Layer<SqlClient.SqlClient>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      CREATE TABLE fleet_locks (shard_id text PRIMARY KEY, address text NOT NULL, acquired_at datetime NOT NULL)`
    for (const index of captureScopes.keys()) {
      yield* sql`INSERT INTO fleet_locks VALUES (${`default:${index + 1}`}, 'other:0', '9999-12-31 00:00:00')`
    }
  }).pipe(Effect.provide(database))

describe("the placement", () => {
  it.effect("has joined as soon as its first shard is placed, before the shard's work begins", () =>
    Effect.gen(function*() {
      const { joined, placed, readiness } = yield* join("one", yield* database())
      yield* TestClock.adjust(0)
      assert.isFalse(joined.isOpen())
      yield* TestClock.adjust(soon)
      assert.strictEqual(new Set(placed).size, captureScopes.length + 1)
      assert.deepStrictEqual(new Set(readiness), new Set([true]))
      assert.isTrue(joined.isOpen())
    }))

  it.effect("has joined after ten seconds if it gets no shard, because other processes hold all of them", () =>
    Effect.gen(function*() {
      const shared = yield* database()
      yield* takeAllLocks(shared)
      const { joined, placed } = yield* join("one", shared)
      yield* TestClock.adjust("9999 millis")
      assert.isFalse(joined.isOpen())
      yield* TestClock.adjust("1 millis")
      assert.isTrue(joined.isOpen())
      assert.deepStrictEqual(placed, [])
    }))

  it.effect("takes all shards although the database refuses any one statement, also while the process joins (X10)", () =>
    Effect.gen(function*() {
      for (let refused = 1; refused <= 24; refused++) {
        yield* Effect.scoped(Effect.gen(function*() {
          const { placed } = yield* join("one", yield* database(refused))
          yield* TestClock.adjust(soon)
          yield* TestClock.adjust("8 seconds")
          assert.strictEqual(new Set(placed).size, captureScopes.length + 1, `statement ${refused} was refused`)
        }))
      }
    }))

  it.effect("takes all shards once the database can be reached", () =>
    Effect.gen(function*() {
      const reachable = yield* database()
      const tries = [1, 2].map(() => Layer.effect(SqlClient.SqlClient, Effect.fail(unavailable)))
      const { placed } = yield* join("one", Layer.unwrap(Effect.sync(() => tries.pop() ?? reachable)))
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(placed, [])
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(placed.length, captureScopes.length + 1)
    }))

  it.effect("logs each cause of a refusal once, however long it lasts, and when it has joined", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ fiber, message }) => {
      const { why } = fiber.getRef(References.CurrentLogAnnotations)
      lines.push([message, ...why === undefined ? [] : [why]].flat().join(": "))
    })
    return Effect.gen(function*() {
      const reachable = yield* database()
      let cause: StoreError | null = unavailable
      yield* join(
        "one",
        Layer.unwrap(
          Effect.sync(() => cause === null ? reachable : Layer.effect(SqlClient.SqlClient, Effect.fail(cause)))
        )
      )
      yield* TestClock.adjust("2 minutes")
      assert.lengthOf(lines, 1)
      const [before = ""] = lines
      cause = new StoreError({
        reason: new Unavailable({ operation: "open", cause: new StoreFault("denied", "here") })
      })
      yield* TestClock.adjust("2 minutes")
      cause = unavailable
      yield* TestClock.adjust("2 minutes")
      assert.lengthOf(lines, 2)
      assert.strictEqual(new Set(lines).size, 2)
      cause = null
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(lines.slice(2), ["joined the fleet"])
      assert.include(before, "joining the fleet failed")
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("ends with the reason if the database can never be the store", () =>
    Effect.gen(function*() {
      const { ended } = yield* join("one", Layer.effect(SqlClient.SqlClient, Effect.fail(misconfigured("no store"))))
      assert.deepStrictEqual(yield* Effect.flip(Fiber.join(ended)), misconfigured("no store"))
    }))
})
