/**
 * New stores in memory: copies of one that was migrated once, because a migration costs more than most tests do with a store. A test
 * of migrations, or of the creation of a store, uses `Sqlite.layer`.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Health } from "../../../src/store/sql/Health.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import type { StoreError } from "../../../src/store/Store.ts"

const migrate = (file: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM INTO ${file}`).pipe(
    Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))
  )

let content: Uint8Array | null = null
/** The content of a migrated store. The clock and the random numbers of the test have no part in it. */
export const migrated = (): Uint8Array => {
  if (content !== null) return content
  const folder = mkdtempSync(join(tmpdir(), "rollcall-migrated-"))
  try {
    const file = join(folder, "store.db")
    Effect.runSync(migrate(file))
    content = readFileSync(file)
  } finally {
    rmSync(folder, { recursive: true })
  }
  return content
}

/** As a new store draws its identity, so that a test with a seed gets the same random numbers as with `Sqlite.client`. */
const identify = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const alphabet = [..."0123456789abcdefghijklmnopqrstuvwxyz"] as const
  const identity = (yield* Effect.replicateEffect(Random.choice(alphabet), 8)).join("")
  yield* sql`UPDATE meta SET store = ${identity}`
})

/** A client of a new store, whose tables exist. */
export const client = (): Layer.Layer<SqlClient.SqlClient | Health, StoreError> =>
  Layer.effectDiscard(Effect.orDie(identify)).pipe(
    Layer.provideMerge(Layer.suspend(() => Sqlite.client({ file: ":memory:", content: migrated() })))
  )

/** A new store. Each call is another one. */
export const layer = (): Layer.Layer<Ports.Ports, StoreError> => Layer.provide(Ports.layer, client())
