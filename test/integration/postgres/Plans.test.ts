/** How PostgreSQL executes statements whose cost must not depend on the length of the log. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { Store } from "../../../src/store/Store.ts"
import { changeOf, created, headOf, stateOf, tags } from "../../conformance/StoreSamples.ts"
import * as Server from "./Server.ts"

const { missing } = Server
const { emptyStore } = Server.ofFile()

const open = Effect.flatMap(emptyStore, (url) =>
  Effect.map(
    Layer.build(Layer.provideMerge(Ports.layer, Postgres.client({ url: Redacted.make(url), name: "database" }))),
    (context) => ({ store: Context.get(context, Store), sql: Context.get(context, SqlClient) })
  ))

describe.skipIf(missing !== null)(`statements of PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  it.live("that prune the log read only the rows that they delete, because all appends wait for them", () =>
    Effect.gen(function*() {
      const { sql, store } = yield* open
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, tags, (tx) =>
        tx.write([created("a")]).pipe(
          Effect.andThen(tx.write([changeOf(headOf("a", { live: true, version: 1, position: 1 }), "updated")])),
          Effect.andThen(tx.write([created("b")]))
        ))
      const { deleted, scans } = yield* sql.withTransaction(Effect.gen(function*() {
        // in a small table, the whole table is read only if no index can be used
        yield* sql`SET LOCAL enable_seqscan = off`
        const deleted = yield* store.prune({ before: Date.now() + 60_000, upTo: 2 })
        const [row] = yield* sql<{ scans: number }>`
          SELECT seq_scan AS scans FROM pg_stat_xact_user_tables WHERE relname = 'events'`
        return { deleted, scans: row?.scans }
      }))
      assert.deepStrictEqual([deleted, scans], [1, 0])
    }))
})
