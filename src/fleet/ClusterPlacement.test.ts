/** The placement over a SQLite database, whose locks are the same rows as in PostgreSQL. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import { captureScopes, dispatchScope } from "../domain/Shard.ts"
import * as Sqlite from "../store/sqlite/Sqlite.ts"
import * as ClusterPlacement from "./ClusterPlacement.ts"
import { Placement, PlacementEngine } from "./Placement.ts"

/** Longer than a process needs for its first shard, shorter than it waits for one. */
const soon = "2 seconds"

/** A process that runs a singleton for each shard, and one without a shard. */
const join = Effect.fnUntraced(function*(process: string, database: Layer.Layer<SqlClient>) {
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
  yield* Effect.forkScoped(Effect.provideContext(ClusterPlacement.run(process, database), context))
  return { joined, placed, readiness }
})

const database = Effect.map(
  Layer.build(Sqlite.client({ file: ":memory:" })),
  (context) => Layer.succeed(SqlClient, Context.get(context, SqlClient))
)

/** Another process that holds all locks for as long as the test runs. */
const takeAllLocks = (database: Layer.Layer<SqlClient>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient
    yield* sql`
      CREATE TABLE fleet_locks (shard_id text PRIMARY KEY, address text NOT NULL, acquired_at datetime NOT NULL)`
    for (const index of captureScopes.keys()) {
      yield* sql`INSERT INTO fleet_locks VALUES (${`default:${index + 1}`}, 'other:0', '9999-12-31 00:00:00')`
    }
  }).pipe(Effect.provide(database))

describe("the placement", () => {
  it.effect("has joined as soon as its first shard is placed, before the shard's work begins", () =>
    Effect.gen(function*() {
      const { joined, placed, readiness } = yield* join("one", yield* database)
      yield* TestClock.adjust(0)
      assert.isFalse(joined.isOpen())
      yield* TestClock.adjust(soon)
      assert.strictEqual(new Set(placed).size, captureScopes.length + 1)
      assert.deepStrictEqual(new Set(readiness), new Set([true]))
      assert.isTrue(joined.isOpen())
    }))

  it.effect("has joined after ten seconds if it gets no shard, because other processes hold all of them", () =>
    Effect.gen(function*() {
      const shared = yield* database
      yield* takeAllLocks(shared)
      const { joined, placed } = yield* join("one", shared)
      yield* TestClock.adjust("9999 millis")
      assert.isFalse(joined.isOpen())
      yield* TestClock.adjust("1 millis")
      assert.isTrue(joined.isOpen())
      assert.deepStrictEqual(placed, [])
    }))
})
