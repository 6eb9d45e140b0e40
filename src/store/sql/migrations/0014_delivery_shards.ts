/**
 * Stores the shard of each delivery, and fences a process of an earlier version, which owns the deliveries of all shards under one scope.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { assignShards } from "../delivery/DeliveryRows.ts"

export const deliveryShards = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE ownership SET epoch = epoch + 1 WHERE scope = 'delivery'`
  yield* sql`ALTER TABLE deliveries ADD COLUMN shard smallint`
  yield* sql`CREATE INDEX deliveries_unassigned ON deliveries (integration) WHERE shard IS NULL`
  yield* assignShards(sql)
  yield* sql`DROP INDEX deliveries_due`
  yield* sql`CREATE INDEX deliveries_due ON deliveries (handler, shard, due_at, id) WHERE state = 'due'`
  yield* sql`CREATE INDEX deliveries_running ON deliveries (handler, shard) WHERE state = 'running'`
})
