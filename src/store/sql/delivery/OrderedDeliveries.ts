/**
 * Keeps deliveries with the same ordering key in order: adds new ones at the end, and makes the next one due.
 *
 * Invariants
 * 1. Per handler and ordering key, at most one delivery is due or running; later ones are waiting   (I5)
 *
 * Gotchas
 * - When a delivery is added or ends, this module checks whether an earlier delivery with the same ordering key is unsettled. A claim does
 *   not check that, so thousands of deliveries that wait for a dead one do not slow it down.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { NewDelivery } from "../../Delivery.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import { fromDelivery } from "./DeliveryRows.ts"

export type OrderingKey = { readonly handler: Integer; readonly ordering_key: string }

export const make = (sql: SqlClient) => {
  const skips = (handler: number) =>
    Effect.map(
      sql<{ skips_dead: Integer }>`SELECT skips_dead FROM handlers WHERE key = ${handler}`,
      ([row]) => Number(row?.skips_dead) === 1
    )

  /** For each key: makes the first waiting delivery due, unless an earlier delivery still blocks it. */
  const unblock = Effect.fnUntraced(function*(keys: ReadonlyArray<OrderingKey>) {
    for (const [handler, own] of Map.groupBy(keys, (row) => Number(row.handler))) {
      const earlier = (yield* skips(handler))
        ? sql.literal("")
        : sql`OR (e.state = 'dead' AND e.id < deliveries.id)`
      for (const some of Arr.chunksOf(own.map(({ ordering_key }) => ordering_key), rowsPerStatement)) {
        yield* sql`
          UPDATE deliveries SET state = 'due' WHERE id IN (
            SELECT min(id) FROM deliveries
            WHERE handler = ${handler} AND ordering_key ${among(sql, some)} AND state = 'waiting' GROUP BY ordering_key
          ) AND NOT EXISTS (
            SELECT 1 FROM deliveries e WHERE e.handler = deliveries.handler AND e.ordering_key = deliveries.ordering_key
              AND (e.state IN ('due', 'running') ${earlier})
          )`
      }
    }
  })

  /** Leaves out the deliveries of log rows that were emptied after the dispatcher had read them. */
  const withoutEmptied = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const positions = new Set(deliveries.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const emptied = new Set<number>()
    for (const some of Arr.chunksOf(positions, rowsPerStatement)) {
      const found = yield* sql<{ position: Integer }>`
        SELECT position FROM events WHERE position ${among(sql, some)} AND kind <> 'deleted' AND content IS NULL`
      for (const { position } of found) emptied.add(Number(position))
    }
    return emptied.size === 0
      ? deliveries
      : deliveries.filter(({ subject }) => subject._tag === "Tick" || !emptied.has(subject.position))
  })

  /** Inside a transaction: the rows of new deliveries, in the order in which they are added. */
  const newRows = Effect.fnUntraced(function*(all: ReadonlyArray<NewDelivery>) {
    const deliveries = yield* withoutEmptied(all)
    const { ahead, now } = yield* DatabaseTime.read(sql)
    const rows: Array<ReturnType<typeof fromDelivery>> = []
    for (const [handler, own] of Map.groupBy(deliveries, (delivery) => delivery.handler)) {
      const blocking = ["waiting", "due", "running", ...(yield* skips(handler)) ? [] : ["dead"]]
      const blocked = new Set<string>()
      for (const some of Arr.chunksOf([...new Set(own.map(({ orderingKey }) => orderingKey))], rowsPerStatement)) {
        const found = yield* sql<{ ordering_key: string }>`
          SELECT DISTINCT ordering_key FROM deliveries
          WHERE handler = ${handler} AND ordering_key ${among(sql, some)} AND state IN ${sql.in(blocking)}`
        for (const { ordering_key } of found) blocked.add(ordering_key)
      }
      for (const delivery of own) {
        const state = delivery.dead !== null ? "dead" : blocked.has(delivery.orderingKey) ? "waiting" : "due"
        rows.push(fromDelivery(delivery, { state, createdAt: now - ahead, ahead }))
        if (blocking.includes(state)) blocked.add(delivery.orderingKey)
      }
    }
    return rows
  })

  /** Inside a transaction: adds deliveries, in their order. */
  const insert = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    for (const some of Arr.chunksOf(yield* newRows(deliveries), rowsPerStatement)) {
      yield* sql`INSERT INTO deliveries ${insertion(sql, some)}`
    }
  })

  /** Like `insert`; returns the ids. */
  const insertWithIds = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const ids: Array<number> = []
    for (const some of Arr.chunksOf(yield* newRows(deliveries), rowsPerStatement)) {
      const added = yield* sql<{ id: Integer }>`INSERT INTO deliveries ${insertion(sql, some)} RETURNING id`
      for (const { id } of added) ids.push(Number(id))
    }
    return ids
  })

  return { insert, insertWithIds, unblock }
}

export type OrderedDeliveries = ReturnType<typeof make>
