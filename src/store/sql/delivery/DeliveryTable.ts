/**
 * The rows of deliveries, their batches, and the order of those with the same ordering key: new ones are added at the end, and the next one
 * becomes due.
 *
 * Invariants
 * 1. Per handler and ordering key, at most one delivery is due or running; later ones are waiting   (I5)
 * 2. A batch's name contains the names of the batches that contain it: all events of `17.1.r90` are also in `17.1` and in `17`.
 *    So the journal of a batch applies to every event of the batches inside it   (L4, L7)
 *
 * Gotchas
 * - A name is never reused for a batch with different members. An event that is delivered again gets a new batch inside its last batch,
 *   even if all other members are delivered again too, because some members may have to wait for an earlier delivery with their ordering
 *   key.
 * - When a delivery is added or ends, this module checks whether an earlier delivery with the same ordering key is unsettled. A claim does
 *   not check that, so thousands of deliveries that wait for a dead one do not slow it down.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { hash } from "node:crypto"
import { causeOf } from "../../../domain/FailureCause.ts"
import { shardOf } from "../../../domain/Shard.ts"
import type { Delivery, Failure, NewDelivery } from "../../Delivery.ts"
import type { Claimed } from "../../DeliveryClaims.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import { inBatches } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"

// ---- rows ---------------------------------------------------------------------------------------------------------

type SubjectRow =
  | { readonly position: number }
  | {
    readonly position: null
    readonly scheduled_at: number
    readonly from_position: number
    readonly to_position: number
  }

export type DeliveryRow = SubjectRow & {
  readonly id: number
  readonly handler: number
  readonly integration: string
  readonly ordering_key: string
  readonly due_at: number
  readonly created_at: number
  readonly attempts: number
  readonly claims: number
  readonly crashes: number
  readonly batch: string | null
  readonly fresh: string | null
  /** This program wrote the JSON, so it is parsed unchecked. */
  readonly failure: string | null
}

export const toDelivery = (row: DeliveryRow): Delivery => ({
  id: row.id,
  handler: row.handler,
  integration: row.integration,
  orderingKey: row.ordering_key,
  subject: row.position === null
    ? { _tag: "Tick", scheduledAt: row.scheduled_at, from: row.from_position, to: row.to_position }
    : { _tag: "Event", position: row.position },
  createdAt: row.created_at,
  attempts: row.attempts,
  batch: row.batch,
  fresh: row.fresh
})

export const toClaimed = (row: DeliveryRow): Claimed => ({
  ...toDelivery(row),
  claim: row.claims,
  crashes: row.crashes
})

export const toFailure = (text: string): Failure => JSON.parse(text)

export const fromFailure = (failure: Failure): string => JSON.stringify(failure)

/** The columns of a failure that makes a delivery dead. The cause begins with the reason, which `withReason` of a query searches for. */
export const fromDeath = (failure: Failure) => {
  const { at, message, reason, refusal } = failure
  const cause = hash("sha256", JSON.stringify([refusal, causeOf(message)])).slice(0, 12)
  return { failure: fromFailure(failure), died_at: at, cause: `${reason}-${cause}` }
}

export const fromDelivery = (
  { dead, dueAt, fresh, handler, integration, orderingKey, subject }: NewDelivery,
  /** `ahead`: how far the database's clock is ahead of ours, in ms. */
  { ahead, createdAt, state }: {
    /** `waiting`: an earlier delivery with the same ordering key blocks it. `due`: none does; `due_at` may still be in the future. */
    readonly state: "waiting" | "due" | "dead"
    readonly createdAt: number
    readonly ahead: number
  }
) => {
  const tick = subject._tag === "Tick" ? subject : null
  return {
    handler,
    integration,
    shard: shardOf(integration),
    ordering_key: orderingKey,
    position: subject._tag === "Event" ? subject.position : null,
    scheduled_at: tick?.scheduledAt ?? null,
    from_position: tick?.from ?? null,
    to_position: tick?.to ?? null,
    state,
    due_at: dueAt + ahead,
    created_at: createdAt,
    attempts: 0,
    claims: 0,
    fresh,
    ...dead === null ? { failure: null, died_at: null, cause: null } : fromDeath(dead)
  }
}

// ---- batches ------------------------------------------------------------------------------------------------------

/** Expressions over the keys under which steps run once, and over the names of batches. */
export const baseOf = (sql: SqlClient) => {
  /** The text up to its first `mark`. */
  const cut = (mark: string, text: Fragment) =>
    sql.onDialectOrElse({
      pg: () => sql`split_part(${text}, ${mark}, 1)`,
      orElse: () => sql`substr(${text}, 1, instr(${text} || ${mark}, ${mark}) - 1)`
    })
  const key = cut("~", cut(".", sql.literal("dedup_key")))
  return {
    /** The column `dedup_key` without the parts that a replay or a half of a batch adds: `e<position>` or `b<first delivery>`. */
    key,
    /** The position of the event in the column `dedup_key`; null for the key of a batch, a tick or a record. */
    position: sql`CASE WHEN dedup_key LIKE 'e%' THEN CAST(substr(${key}, 2) AS bigint) END`,
    /** The name of the whole batch, in this column. */
    batch: (column: string) => cut(".", sql.literal(column))
  }
}

/** The batch in which an event was last delivered to a handler, even after the delivery is settled and deleted. */
export const makeBatches = (sql: SqlClient) => ({
  /** Inside a transaction: saves the batch of these deliveries as the last batch of their events. */
  remember: (deliveries: ReadonlyArray<number>) =>
    inBatches(deliveries, (some) =>
      sql`
        INSERT INTO batch_members (handler, position, batch)
        SELECT handler, position, batch FROM deliveries WHERE id ${among(sql, some)} AND batch IS NOT NULL
        ON CONFLICT (handler, position) DO UPDATE SET batch = excluded.batch`),
  /** The batch in which each event was last delivered to the handler, by position. Events without a batch are missing. */
  batches: (handler: number, positions: ReadonlyArray<number>) =>
    inBatches(positions, (some) =>
      sql<{ position: number; batch: string }>`
        SELECT position, batch FROM batch_members WHERE handler = ${handler} AND position ${among(sql, some)}`).pipe(
        Effect.map((rows): ReadonlyMap<number, string> => new Map(rows.map(({ batch, position }) => [position, batch])))
      ),
  /** Deletes rows of events that are pruned from the log and have no delivery left: they cannot be delivered again. */
  prune: sql`
    DELETE FROM batch_members WHERE position <= (SELECT pruned FROM log_counter) AND NOT EXISTS (
      SELECT 1 FROM deliveries d WHERE d.handler = batch_members.handler AND d.position = batch_members.position
    )`
})

export type Batches = ReturnType<typeof makeBatches>

// ---- order --------------------------------------------------------------------------------------------------------

export type OrderingKey = { readonly handler: number; readonly ordering_key: string }

/** All of this runs inside a transaction that holds the lock of deliveries. */
export const make = (sql: SqlClient) => {
  const skips = (handler: number) =>
    Effect.map(
      sql<{ skips_dead: number }>`SELECT skips_dead FROM handlers WHERE key = ${handler}`,
      ([row]) => row?.skips_dead === 1
    )

  /** For each key: makes the first waiting delivery due, unless an earlier delivery still blocks it. */
  const unblock = Effect.fnUntraced(function*(keys: ReadonlyArray<OrderingKey>) {
    for (const [handler, own] of Map.groupBy(keys, ({ handler }) => handler)) {
      const earlier = (yield* skips(handler))
        ? sql.literal("")
        : sql`OR (e.state = 'dead' AND e.id < deliveries.id)`
      yield* inBatches(own, (some) =>
        sql`
          UPDATE deliveries SET state = 'due' WHERE id IN (
            SELECT min(id) FROM deliveries
            WHERE handler = ${handler} AND ordering_key ${among(sql, some.map(({ ordering_key }) => ordering_key))}
              AND state = 'waiting' GROUP BY ordering_key
          ) AND NOT EXISTS (
            SELECT 1 FROM deliveries e WHERE e.handler = deliveries.handler AND e.ordering_key = deliveries.ordering_key
              AND (e.state IN ('due', 'running') ${earlier})
          )`)
    }
  })

  /** Leaves out the deliveries of log rows that were emptied after the dispatcher had read them. */
  const withoutEmptied = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const positions = new Set(deliveries.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const found = yield* inBatches(positions, (some) =>
      sql<{ position: number }>`
        SELECT position FROM events WHERE position ${among(sql, some)} AND kind <> 'deleted' AND content IS NULL`)
    const emptied = new Set(found.map(({ position }) => position))
    return emptied.size === 0
      ? deliveries
      : deliveries.filter(({ subject }) => subject._tag === "Tick" || !emptied.has(subject.position))
  })

  /** The rows of new deliveries, in the order in which they are added. */
  const newRows = Effect.fnUntraced(function*(all: ReadonlyArray<NewDelivery>) {
    const deliveries = yield* withoutEmptied(all)
    const { ahead, now } = yield* DatabaseTime.read(sql)
    const rows: Array<ReturnType<typeof fromDelivery>> = []
    for (const [handler, own] of Map.groupBy(deliveries, ({ handler }) => handler)) {
      const blocking = ["waiting", "due", "running", ...(yield* skips(handler)) ? [] : ["dead"]]
      const found = yield* inBatches(
        new Set(own.map(({ orderingKey }) => orderingKey)),
        (some) =>
          sql<{ ordering_key: string }>`
          SELECT DISTINCT ordering_key FROM deliveries
          WHERE handler = ${handler} AND ordering_key ${among(sql, some)} AND state IN ${sql.in(blocking)}`
      )
      const blocked = new Set(found.map(({ ordering_key }) => ordering_key))
      for (const delivery of own) {
        const state = delivery.dead !== null ? "dead" : blocked.has(delivery.orderingKey) ? "waiting" : "due"
        rows.push(fromDelivery(delivery, { state, createdAt: now - ahead, ahead }))
        if (blocking.includes(state)) blocked.add(delivery.orderingKey)
      }
    }
    return rows
  })

  /** Adds deliveries, in their order. */
  const insert = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    yield* inBatches(yield* newRows(deliveries), (some) => sql`INSERT INTO deliveries ${insertion(sql, some)}`)
  })

  /** Like `insert`; returns the ids. */
  const insertWithIds = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const added = yield* inBatches(
      yield* newRows(deliveries),
      (some) => sql<{ id: number }>`INSERT INTO deliveries ${insertion(sql, some)} RETURNING id`
    )
    return added.map(({ id }) => id)
  })

  return { insert, insertWithIds, unblock }
}

export type DeliveryTable = ReturnType<typeof make>
