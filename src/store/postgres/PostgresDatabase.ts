/** Checks whether a database is a store, or can become one. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { table } from "../sql/Migrations.ts"
import { misconfigured, type StoreError } from "../StoreError.ts"
import { type FaultKind, faultOf } from "../StoreFault.ts"
import { schema } from "./PostgresSession.ts"

/** The oldest supported version: it introduced `pg_current_xact_id_if_assigned` and `xid8`. */
const oldest = 13

const configurationFaults: ReadonlySet<FaultKind> = new Set([
  "login",
  "missing",
  "encryption",
  "pooled",
  "settingsDropped",
  "denied"
])

/** Separates faults of the configuration, which a person must fix first, from faults that may pass. */
export const toOpenError = (error: SqlError): StoreError | SqlError => {
  const fault = faultOf(error)
  return fault !== null && configurationFaults.has(fault.kind)
    ? misconfigured(`${fault.message}; ${fault.hint}`)
    : error
}

interface Found {
  readonly version: number
  readonly encoding: string
  readonly schemaExists: boolean
  readonly storeExists: boolean
  readonly foreign: boolean
  readonly writable: boolean
}

/** Checks whether the database is, or can become, a store; fails with the reason if it cannot. */
export const checkDatabase = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, name: string) {
  const [found] = yield* sql<Found>`
    SELECT current_setting('server_version_num')::integer / 10000 AS version, getdatabaseencoding() AS encoding,
      namespace IS NOT NULL AS "schemaExists", migrations IS NOT NULL AS "storeExists",
      migrations IS NULL AND EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = namespace) AS foreign,
      NOT pg_is_in_recovery() AND coalesce(
        has_schema_privilege(namespace, 'CREATE'), has_database_privilege(current_database(), 'CREATE')) AS writable
    FROM (SELECT to_regnamespace(${schema})::oid, to_regclass(${`${schema}.${table}`})::oid) AS x (namespace, migrations)`
    .pipe(Effect.mapError(toOpenError))
  if (found === undefined) return yield* misconfigured(`${name} does not answer like PostgreSQL`)
  const { encoding, foreign, version, writable } = found
  if (version < oldest) {
    return yield* misconfigured(`${name} runs PostgreSQL ${version}; the store needs ${oldest} or newer`)
  }
  if (encoding !== "UTF8") {
    return yield* misconfigured(`the database ${name} has the encoding ${encoding}; create one with encoding UTF8`)
  }
  if (foreign) {
    return yield* misconfigured(
      `the schema "${schema}" of ${name} belongs to another program; configure another database`
    )
  }
  if (!writable) {
    return yield* misconfigured(
      `${name} is not writable; its user must own the schema "${schema}" or be allowed to create it`
    )
  }
  return found
})
