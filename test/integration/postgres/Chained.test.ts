/** A store of before the chain is given one for the log that it has. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { Health } from "../../../src/store/Health.ts"
import * as Postgres from "../../../src/store/Postgres.ts"
import * as Sqlite from "../../../src/store/Sqlite.ts"
import * as SqlStore from "../../../src/store/SqlStore.ts"
import { Store, type StoreError } from "../../../src/store/Store.ts"
import { created, ids, stateOf, tags } from "../../conformance/StoreSamples.ts"
import { folder } from "../../fault/kill/Home.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

/** One more process that opens the database. */
const opened = <A, E>(
  client: Layer.Layer<SqlClient | Health, StoreError>,
  body: (store: Store["Service"]) => Effect.Effect<A, E>
) =>
  Effect.scoped(
    Effect.flatMap(
      Layer.build(Layer.fresh(Layer.provideMerge(SqlStore.layer, client))),
      (context) => body(Context.get(context, Store))
    )
  )

/** What leads back to the schema of before. */
const downgrade = (schema: string) => [
  `ALTER TABLE ${schema}events DROP COLUMN chain`,
  `ALTER TABLE ${schema}log_counter DROP COLUMN chain`,
  `ALTER TABLE ${schema}log_counter DROP COLUMN pruned_chain`,
  `DROP TABLE IF EXISTS ${schema}witness`,
  `DELETE FROM ${schema}migrations WHERE migration_id = 17`
]

const chained = Effect.fnUntraced(function*<E>(
  client: Layer.Layer<SqlClient | Health, StoreError>,
  downgraded: Effect.Effect<unknown, E>
) {
  const positions = [0, 1, 250, 251, 600]
  const before = yield* opened(client, (store) =>
    Effect.gen(function*() {
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.claim("capture")
      yield* store.transact(owner, tags, (tx) => tx.write(ids(600).map(created)))
      const before = yield* store.chains(positions)
      return before
    }))
  yield* downgraded
  yield* opened(client, (store) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* store.chains(positions), before)
      const owner = yield* store.claim("capture")
      yield* store.transact(owner, tags, (tx) => tx.write([created("new")]))
      assert.strictEqual((yield* store.chains([600])).chains[0], before.chain)
    }))
})

describe("a log that is there already gets its chain", () => {
  it.live("in SQLite", () =>
    Effect.gen(function*() {
      const file = join(yield* folder, "rollcall.db")
      yield* chained(
        Sqlite.client({ file }),
        Effect.sync(() => {
          const database = new DatabaseSync(file)
          for (const sql of downgrade("")) database.exec(sql)
          database.close()
        })
      )
    }))

  it.live.skipIf(Server.missing !== null)("in PostgreSQL", () =>
    Effect.gen(function*() {
      const url = yield* database
      const client = Postgres.client({ url: Redacted.make(url), name: "postgres://test" })
      yield* chained(client, Effect.forEach(downgrade("rollcall."), (sql) => Server.say(url, sql)))
    }))
})
