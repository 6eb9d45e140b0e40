/**
 * Brings a database to this program's schema, or refuses one that a newer program wrote.
 */
import * as Effect from "effect/Effect"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError } from "effect/sql/SqlError"
import type { LogIdentity } from "../domain/ChangeEvent.ts"
import { attempt } from "./Attempt.ts"
import { initial } from "./migrations/0001_initial.ts"
import { integrations } from "./migrations/0002_integrations.ts"
import { holds } from "./migrations/0003_holds.ts"
import { mentions } from "./migrations/0004_mentions.ts"
import { parents } from "./migrations/0006_parents.ts"
import { deliveries } from "./migrations/0007_deliveries.ts"
import { expectations } from "./migrations/0008_expectations.ts"
import { erasures } from "./migrations/0009_erasures.ts"
import { stopped } from "./migrations/0013_stopped.ts"
import { crashes } from "./migrations/0014_crashes.ts"
import { batchesAndTicks } from "./migrations/0015_batches_and_ticks.ts"
import { answers } from "./migrations/0016_answers.ts"
import { chain } from "./migrations/0017_chain.ts"
import type { Integer } from "./Rows.ts"
import { Incompatible, StoreError, Unavailable } from "./Store.ts"

/** In order, never edited once released: a change of the schema is a new entry. */
const migrations = {
  "0001_initial": initial,
  "0002_integrations": integrations,
  "0003_holds": holds,
  "0004_mentions": mentions,
  "0006_parents": parents,
  "0007_deliveries": deliveries,
  "0008_expectations": expectations,
  "0009_erasures": erasures,
  "0013_stopped": stopped,
  "0014_crashes": crashes,
  "0015_batches_and_ticks": batchesAndTicks,
  "0016_answers": answers,
  "0017_chain": chain
}
const newestKnown = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))
export const table = "migrations"

const incompatible = (message: string) => new StoreError({ reason: new Incompatible({ message }) })

/** Fails for a schema that only a newer program knows. */
export const notNewer = (schema: number): Effect.Effect<void, StoreError> =>
  schema > newestKnown
    ? Effect.fail(incompatible(`the store has schema ${schema}, this program knows up to ${newestKnown}`))
    : Effect.void

/** Migrates, then says which store this is, and whether it was made by this. */
export const migrate: Effect.Effect<
  { readonly identity: LogIdentity; readonly isNew: boolean },
  StoreError,
  SqlClient.SqlClient
> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const done = yield* Migrator.make({})({ loader: Migrator.fromRecord(migrations), table }).pipe(
    attempt("migrate"),
    Effect.catchTag("MigrationError", (error) =>
      Effect.fail(
        isSqlError(error.cause)
          ? new StoreError({ reason: new Unavailable({ operation: "migrate", cause: error.cause }) })
          : incompatible(error.message)
      ))
  )
  const [newest] = yield* sql<{ id: Integer }>`SELECT max(migration_id) AS id FROM ${sql(table)}`.pipe(
    attempt("migrate")
  )
  yield* notNewer(Number(newest?.id))
  const [meta] = yield* sql<{ store: string; lineage: Integer }>`SELECT store, lineage FROM meta`.pipe(
    attempt("identity")
  )
  if (meta === undefined) return yield* incompatible("the store has no identity")
  return {
    identity: { store: meta.store, lineage: Number(meta.lineage) },
    isNew: done.some(([id]) => id === 1)
  }
})
