/** Fences a process of an earlier version, which owns all streams under one scope; since this version, each shard has a scope of its own. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const shards = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`DELETE FROM ownership WHERE scope = 'capture'`
)
