/** A backup with `pg_dump`, which locks every table against changes of the schema for as long as it runs: for hours with a large store. */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { captureScopes } from "../../../src/domain/Shard.ts"
import * as ClusterPlacement from "../../../src/fleet/ClusterPlacement.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { runMissing } from "../../../src/store/sql/Migrations.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

const optionsOf = (url: string) => ({ url: Redacted.make(url), name: "database" })

/** Opens the store and joins the fleet, as each start of a process does. Returns once the process has a shard. */
const start = (process: string, url: string) =>
  Effect.gen(function*() {
    yield* Layer.build(Layer.fresh(Postgres.layer(optionsOf(url))))
    const placement = yield* Layer.build(Layer.fresh(Placement.layer))
    const placed = yield* Deferred.make<void>()
    const run = Effect.andThen(Deferred.succeed(placed, undefined), Effect.never)
    for (const scope of captureScopes.slice(0, 4)) yield* Context.get(placement, Placement).singleton(scope, run)
    const client = Postgres.leaseClient(optionsOf(url))
    yield* Effect.forkScoped(Effect.provideContext(ClusterPlacement.run(process, client, runMissing), placement))
    yield* Deferred.await(placed)
  })

/** Locks every table like `pg_dump`, until the scope closes. */
const lockTables = Effect.fnUntraced(function*(url: string) {
  const connection = yield* PgConnection.make({ url: Redacted.make(url) })
  const { rows } = yield* connection.query(
    "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'rollcall'",
    [],
    false
  )
  yield* connection.query("BEGIN", [], false)
  yield* connection.query(`LOCK TABLE ${rows.map(({ name }) => name).join(", ")} IN ACCESS SHARE MODE`, [], false)
  return rows.length
})

onServer("a backup of PostgreSQL", () => {
  it.live("that locks every table does not keep a process from opening the store and joining the fleet (X31)", () =>
    Effect.gen(function*() {
      const url = yield* database
      yield* Effect.scoped(start("before", url))
      assert.isAbove(yield* lockTables(url), 40)
      // a start that waits for the lock gives up after a hundred seconds
      yield* Effect.timeout(start("during", url), "80 seconds")
    }))
})
