/**
 * Indexes for what each step of the delivery engine reads, which must not grow with the number of integrations: the start of the log that
 * ticks need, and the few integrations in which no delivery can run.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { activeAccount } from "../Rows.ts"

export const stepIndexes = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE INDEX ticks_on ON ticks (handler, position) WHERE state = 'on'`
  yield* sql`CREATE INDEX deliveries_spans ON deliveries (handler, from_position)
    WHERE from_position IS NOT NULL AND state <> 'dead' AND failure IS NULL`
  yield* sql`CREATE INDEX integrations_account ON integrations (${activeAccount(sql)})`
})
