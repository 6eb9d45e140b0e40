/**
 * Claims due deliveries of some shards.
 *
 * Gotchas
 * - The index of due deliveries starts with handler and shard. To find the earliest deliveries of several shards, a statement reads the
 *   earliest ones of each shard; otherwise a claim would read the whole backlog, or the backlog of another process.
 * - A claim does not check the order of deliveries with the same ordering key: see `DeliveryTable.ts`.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import { shardOf } from "../../../domain/Shard.ts"
import { batchNameOf, isolateAfterCrashes } from "../../Delivery.ts"
import type { Claimed, ClaimRequest, ClaimResult } from "../../DeliveryClaims.ts"
import * as ClaimLimits from "./ClaimLimits.ts"
import type { DueShard, Shards } from "./ClaimLimits.ts"
import { type Batches, type DeliveryRow, toClaimed } from "./DeliveryTable.ts"

export const make = (sql: SqlClient, members: Pick<Batches, "remember">) => {
  const { crashSuspects, excluding, freeSlots, permitted } = ClaimLimits.make(sql)

  const matchesIsolation = ({ isolated }: ClaimRequest) =>
    isolated ? sql`crashes >= ${isolateAfterCrashes}` : sql`crashes <> ${isolateAfterCrashes}`

  /** The delivery with the most crashes comes first, so that it becomes a dead letter before another one can end the process. */
  const mostCrashesFirst = ({ isolated }: ClaimRequest, of = "") => sql.literal(isolated ? `${of}(crashes) DESC,` : "")

  /** The rows that a query finds in each of the shards. There must be at least one shard. */
  const inEach = (shards: Shards, query: (shard: number) => Fragment): Fragment =>
    sql`(${
      sql.join(" UNION ALL ", false)(shards.map((shard) => sql`SELECT * FROM (${query(shard)}) AS one`))
    }) AS every`

  /** The shards in which the handler has due deliveries, now or later, with one lookup in the index each. */
  const dueShards = (handler: number) => {
    const due = sql`d.handler = ${handler} AND d.state = 'due'`
    return sql<DueShard>`
        WITH RECURSIVE found (shard) AS (
          SELECT min(d.shard) FROM deliveries d WHERE ${due}
          UNION ALL
          SELECT (SELECT min(d.shard) FROM deliveries d WHERE ${due} AND d.shard > found.shard) FROM found
          WHERE found.shard IS NOT NULL
        ) SELECT shard,
          (SELECT min(d.due_at) FROM deliveries d WHERE ${due} AND d.shard = found.shard) AS first,
          (SELECT max(d.due_at) FROM deliveries d WHERE ${due} AND d.shard = found.shard) AS last
        FROM found WHERE shard IS NOT NULL`
  }

  const take = (where: Fragment) =>
    sql<
      DeliveryRow
    >`UPDATE deliveries SET state = 'running', claims = claims + 1, stopped = 0 WHERE ${where} RETURNING
        id, handler, integration, ordering_key, position, scheduled_at, from_position, to_position, due_at, created_at, attempts, claims,
        crashes, batch, fresh, failure`

  const claimEach = (want: ClaimRequest, shards: Shards, now: number) => {
    if (shards.length === 0) return Effect.succeed([])
    const order = sql`ORDER BY ${mostCrashesFirst(want)} due_at, id LIMIT ${want.most}`
    const inShard = (shard: number) =>
      sql`SELECT id, due_at, crashes FROM deliveries
        WHERE handler = ${want.handler} AND shard = ${shard} AND state = 'due' AND due_at <= ${now}
          AND ${matchesIsolation(want)} ${excluding(want)} ${order}`
    return take(sql`id IN (SELECT id FROM ${inEach(shards, inShard)} ${order})`)
  }

  /** A batch has one journal, so either all its events were in the same earlier batch, or none of them was in a batch before. */
  const claimBatches = Effect.fnUntraced(function*(
    want: ClaimRequest & { readonly size: number },
    shards: Shards,
    now: number
  ) {
    if (shards.length === 0) return { claimed: [], count: 0 }
    const claimed: Array<DeliveryRow> = []
    const matching = sql`state = 'due' AND ${matchesIsolation(want)} ${excluding(want)}`
    const due = sql`handler = ${want.handler} AND shard IN ${sql.in(shards)} AND ${matching}`
    const fixed = yield* sql<{ batch: string }>`
      SELECT batch FROM deliveries WHERE ${due} AND batch IS NOT NULL AND due_at <= ${now}
      GROUP BY batch ORDER BY ${mostCrashesFirst(want, "max")} min(id) LIMIT ${want.most}`
    if (fixed.length > 0) {
      claimed.push(
        ...yield* take(
          sql`handler = ${want.handler} AND state = 'due' AND batch IN ${sql.in(fixed.map(({ batch }) => batch))}`
        )
      )
    }
    /** Integrations whose next batch is full, or has waited long enough. */
    const readyAmong = (deliveries: Fragment, most: number) =>
      sql<{ integration: string }>`
        SELECT integration FROM ${deliveries}
        GROUP BY integration HAVING count(*) >= ${want.size} OR min(due_at) <= ${now}
        ORDER BY min(due_at), integration LIMIT ${most}`
    const inShard = (shard: number) => sql`handler = ${want.handler} AND shard = ${shard} AND ${matching}`
    const earliestOfEach = (most: number) =>
      inEach(shards, (shard) =>
        sql`SELECT integration, due_at FROM deliveries WHERE ${inShard(shard)} AND batch IS NULL
          ORDER BY due_at, id LIMIT ${most}`)
    let capacity = want.most - fixed.length
    while (capacity > 0) {
      // The earliest deliveries usually show an integration whose batch is ready. If many integrations have a few deliveries each, they may
      // not; then all are counted.
      const soon = yield* readyAmong(earliestOfEach(capacity * want.size), capacity)
      const ready = soon.length > 0
        ? soon
        : yield* readyAmong(
          sql`(SELECT integration, due_at FROM deliveries WHERE ${due} AND batch IS NULL) AS due`,
          capacity
        )
      for (const { integration } of ready) {
        const rows = yield* sql<{ id: number; fresh: string | null; last: string | null }>`
          SELECT d.id, d.fresh, m.batch AS last FROM (
            SELECT id, handler, position, fresh FROM deliveries
            WHERE ${inShard(shardOf(integration))} AND batch IS NULL AND integration = ${integration}
            ORDER BY due_at, id LIMIT ${want.size}
          ) AS d LEFT JOIN batch_members m ON m.handler = d.handler AND m.position = d.position ORDER BY d.id`
        const groups = [...Map.groupBy(rows, ({ fresh, last }) => JSON.stringify([fresh, last])).values()]
        for (const group of groups.slice(0, capacity)) {
          const ids = group.map(({ id }) => id)
          const batch = batchNameOf(group[0]?.last ?? null, ids[0] ?? 0)
          yield* sql`UPDATE deliveries SET batch = ${batch}, due_at = ${now} WHERE id IN ${sql.in(ids)}`
          yield* members.remember(ids)
          claimed.push(...yield* take(sql`id IN ${sql.in(ids)}`))
          capacity--
        }
      }
      if (ready.length === 0) break
    }
    return { claimed, count: want.most - capacity }
  })

  /** When the next delivery that was not claimed will be due. */
  const nextDue = (want: ClaimRequest, shards: Shards, now: number) => {
    if (shards.length === 0) return Effect.succeed(Infinity)
    const inShard = (shard: number) =>
      sql`SELECT min(due_at) AS due_at FROM deliveries
        WHERE handler = ${want.handler} AND shard = ${shard} AND state = 'due'
          AND (${matchesIsolation(want)} OR due_at > ${now}) ${excluding(want)}`
    return Effect.map(
      sql<{ due_at: number | null }>`SELECT min(due_at) AS due_at FROM ${inEach(shards, inShard)}`,
      ([later]) => later?.due_at ?? Infinity
    )
  }

  /**
   * Makes deliveries due now that are due more than `maxLead` ahead, because the clock must have been set back. Returns the shards with the
   * new times of their first deliveries.
   */
  const bringForward = Effect.fnUntraced(function*(
    { handler, maxLead }: ClaimRequest,
    found: ReadonlyArray<DueShard>,
    now: number
  ) {
    const latest = now + maxLead
    if (found.every(({ last }) => last <= latest)) return found
    yield* sql`
      UPDATE deliveries SET due_at = ${now}
      WHERE handler = ${handler} AND shard IN ${sql.in(found.map(({ shard }) => shard))} AND state = 'due'
        AND due_at > ${latest}`
    return found.map((each) => each.last <= latest ? each : { ...each, first: Math.min(each.first, now) })
  })

  /** Inside a transaction that holds the lock of deliveries. Times are the database's clock, in ms. */
  const claim = Effect.fnUntraced(function*(
    requests: ReadonlyArray<ClaimRequest>,
    shards: Shards,
    circuits: ReadonlyMap<number, HandlerCircuit.HandlerCircuit>,
    now: number
  ) {
    const claimed: Array<Claimed> = []
    let next = Infinity
    let isolatedDue = false
    for (const request of shards.length === 0 ? [] : requests) {
      const { handler, size } = request
      if (request.isolated && claimed.length > 0) break
      const circuit = circuits.get(handler) ?? HandlerCircuit.closed
      const { lookAt, permits } = yield* permitted(handler, circuit, shards, now)
      if (permits === 0) {
        next = Math.min(next, lookAt)
        continue
      }
      const suspects = yield* crashSuspects(request, shards, now)
      const most = suspects.some ? Math.min(request.most, request.mostAfterCrash) : request.most
      const due = yield* dueShards(handler)
      const found = yield* bringForward(request, due.filter(({ shard }) => shards.includes(shard)), now)
      const free = found.length === 0 ? 0 : Math.min(permits, yield* freeSlots(request, shards, due, now))
      // an isolated delivery without a free slot does not set `isolatedDue`, so no other delivery waits for it
      if (!request.isolated && suspects.isolatedDue && free > 0) isolatedDue = true
      const want = { ...request, most: Math.min(request.isolated ? 1 : most, free) }
      const pollAt = free < most && found.length > 0 && !ClaimLimits.areAll(shards)
        ? now + ClaimLimits.pollMillis
        : Infinity
      if (want.most === 0) {
        next = Math.min(next, pollAt)
        continue
      }
      const all = found.map(({ shard }) => shard)
      const { claimed: rows, count } = size === null
        ? yield* Effect.map(
          claimEach(want, found.flatMap(({ first, shard }) => first <= now ? [shard] : []), now),
          (rows) => ({ claimed: rows, count: rows.length })
        )
        : yield* claimBatches({ ...want, size }, all, now)
      claimed.push(...rows.map(toClaimed))
      next = Math.min(next, count < want.most ? yield* nextDue(want, all, now) : pollAt)
    }
    claimed.sort((a, b) => a.id - b.id)
    return { claimed, next: next === Infinity ? null : next, isolatedDue } satisfies Omit<
      ClaimResult,
      "lost" | "circuits"
    >
  })

  return { claim }
}
