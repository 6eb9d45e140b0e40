/**
 * The table of deliveries as the engine uses it: in from the log, claimed, settled.
 *
 * Invariants
 * 1. Of one handler and lane at most one delivery is due or running; those behind it are waiting   (I5)
 *
 * Gotchas
 * - Whether something earlier of its lane is unsettled is decided when a delivery comes in and when one goes, not by each
 *   claim: thousands that wait behind a dead one cost a claim nothing.
 * - The members of a batch always have the same state, due time and attempts.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { attempt, step } from "./Attempt.ts"
import * as BatchMembers from "./BatchMembers.ts"
import {
  aloneAfter,
  type Attempted,
  type Claimed,
  type Deliveries,
  type HandlerState,
  type NewDelivery,
  type NewHandler,
  type Outcome,
  reader,
  type Want
} from "./Deliveries.ts"
import { type DeliveryRow, fromDelivery, fromFailure, toClaimed } from "./DeliveryRows.ts"
import type { EventLog } from "./EventLog.ts"
import * as Locks from "./Locks.ts"
import type * as Ownership from "./Ownership.ts"
import { type Integer, rowsPerStatement } from "./Rows.ts"
import * as TickTable from "./TickTable.ts"

export type Lane = { readonly handler: Integer; readonly lane: string }

export const make = (
  sql: SqlClient,
  { fence }: Pick<ReturnType<typeof Ownership.make>, "fence">,
  log: Pick<EventLog, "at">
) => {
  const locks = Locks.make(sql)
  const members = BatchMembers.make(sql)
  const newest = Effect.map(
    sql<{ position: Integer }>`SELECT position FROM log_counter`,
    ([row]) => Number(row?.position ?? 0)
  )

  // within JSON text a value has its quotes escaped
  const removed = sql.literal(`SELECT id FROM integrations WHERE state NOT LIKE '%"state":"active"%'`)
  const writesOff = sql.literal("SELECT plugin FROM switched_off WHERE plugin = '' AND integration = ''")

  // ---- lanes

  const skips = (handler: number) =>
    Effect.map(
      sql<{ skips: Integer }>`SELECT skips FROM handlers WHERE key = ${handler}`,
      ([row]) => Number(row?.skips) === 1
    )

  /** Of each of these the first that waits is due, if nothing is before it any more. */
  const release = Effect.fnUntraced(function*(lanes: ReadonlyArray<Lane>) {
    for (const [handler, own] of Map.groupBy(lanes, (row) => Number(row.handler))) {
      const earlier = (yield* skips(handler))
        ? sql.literal("")
        : sql`OR (e.state = 'dead' AND e.id < deliveries.id)`
      for (const some of Arr.chunksOf(own.map(({ lane }) => lane), rowsPerStatement)) {
        yield* sql`
          UPDATE deliveries SET state = 'due' WHERE id IN (
            SELECT min(id) FROM deliveries
            WHERE handler = ${handler} AND lane IN ${sql.in(some)} AND state = 'waiting' GROUP BY lane
          ) AND NOT EXISTS (
            SELECT 1 FROM deliveries e WHERE e.handler = deliveries.handler AND e.lane = deliveries.lane
              AND (e.state IN ('due', 'running') ${earlier})
          )`
      }
    }
  })

  /** Inside a transaction: adds deliveries, in their order. */
  const insert = Effect.fnUntraced(function*(deliveries: ReadonlyArray<NewDelivery>) {
    const now = yield* Clock.currentTimeMillis
    const rows: Array<ReturnType<typeof fromDelivery>> = []
    for (const [handler, own] of Map.groupBy(deliveries, (delivery) => delivery.handler)) {
      const blocking = ["waiting", "due", "running", ...(yield* skips(handler)) ? [] : ["dead"]]
      const held = new Set<string>()
      for (const some of Arr.chunksOf([...new Set(own.map(({ lane }) => lane))], rowsPerStatement)) {
        const lanes = yield* sql<{ lane: string }>`
          SELECT DISTINCT lane FROM deliveries
          WHERE handler = ${handler} AND lane IN ${sql.in(some)} AND state IN ${sql.in(blocking)}`
        for (const { lane } of lanes) held.add(lane)
      }
      for (const delivery of own) {
        const state = delivery.dead !== null ? "dead" : held.has(delivery.lane) ? "waiting" : "due"
        rows.push(fromDelivery(delivery, { state, createdAt: now }))
        if (blocking.includes(state)) held.add(delivery.lane)
      }
    }
    for (const some of Arr.chunksOf(rows, rowsPerStatement)) yield* sql`INSERT INTO deliveries ${sql.insert(some)}`
  })

  // ---- dispatching

  /**
   * Inside a transaction: the log is kept from where the handler that is furthest behind stands, or the last tick, or the
   * beginning of one that is not settled, or where a handler without any tick was registered   (L8). Ticks of an integration
   * that was removed wait, and hold no log.
   */
  const noteReader = sql`
    INSERT INTO readers (name, position) SELECT ${reader}, coalesce(
      (SELECT min(position) FROM (
        SELECT position FROM handlers WHERE active = 1 AND regular = 0
        UNION ALL SELECT t.position FROM ticks t JOIN handlers h ON h.key = t.handler
          WHERE h.active = 1 AND t.state = 'on' AND t.integration NOT IN (${removed})
        UNION ALL SELECT position FROM handlers WHERE active = 1 AND regular = 1
          AND NOT EXISTS (SELECT 1 FROM ticks t WHERE t.handler = handlers.key)
        UNION ALL SELECT from_position FROM deliveries WHERE state <> 'dead'
          AND handler IN (SELECT key FROM handlers WHERE active = 1 AND regular = 1)
          AND integration NOT IN (${removed})
      ) AS standing),
      (SELECT position FROM log_counter)
    ) WHERE TRUE
    ON CONFLICT (name) DO UPDATE SET position = excluded.position`

  const handlers = sql<{ key: Integer; plugin: string; handler: string; position: Integer; active: Integer }>`
    SELECT key, plugin, handler, position, active FROM handlers ORDER BY key`.pipe(
    Effect.map(Arr.map((row): HandlerState => ({
      ...row,
      key: Number(row.key),
      position: Number(row.position),
      active: Number(row.active) === 1
    })))
  )

  const open: Deliveries["Service"]["open"] = Effect.fnUntraced(
    function*(owner, wanted) {
      yield* fence(owner)
      const end = yield* newest
      const rows = wanted.map(({ from, handler, plugin, regular, skips }: NewHandler) => ({
        plugin,
        handler,
        skips: skips ? 1 : 0,
        regular: regular ? 1 : 0,
        active: 1,
        position: from === "now" ? end : 0
      }))
      yield* sql`UPDATE handlers SET active = 0`
      for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
        yield* sql`INSERT INTO handlers ${sql.insert(some)} ON CONFLICT (plugin, handler) DO UPDATE SET
          skips = excluded.skips, regular = excluded.regular, active = 1`
      }
      yield* noteReader
      yield* sql`UPDATE deliveries SET state = 'due', crashes = crashes + 1 WHERE state = 'running'`
      const parked = yield* sql<Lane>`SELECT DISTINCT handler, lane FROM deliveries WHERE state = 'waiting'`
      yield* release(parked)
      return (yield* handlers).filter(({ active }) => active)
    },
    locks.deliveries,
    attempt("open")
  )

  const dispatch: Deliveries["Service"]["dispatch"] = Effect.fnUntraced(
    function*(owner, { deliveries, handlers, position }) {
      yield* fence(owner)
      yield* insert(deliveries)
      for (const some of Arr.chunksOf(handlers, rowsPerStatement)) {
        yield* sql`UPDATE handlers SET position = ${position} WHERE key IN ${sql.in(some)}`
      }
      yield* noteReader
    },
    locks.deliveries,
    attempt("dispatch")
  )

  // ---- settling

  const tell = Effect.fnUntraced(function*(deliveries: ReadonlyArray<number>, { number, ...story }: Attempted) {
    const rows = deliveries.map((delivery) => ({ delivery, number, story: JSON.stringify(story) }))
    for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
      yield* sql`INSERT INTO attempts ${sql.insert(some)} ON CONFLICT (delivery, number) DO UPDATE SET
        story = excluded.story`
    }
  })

  /** All that have come to the end that most come to, in as few statements as may be. */
  const settleAll = Effect.fnUntraced(function*(ids: ReadonlyArray<number>) {
    for (const some of Arr.chunksOf(ids, rowsPerStatement)) {
      const gone = yield* sql<Lane & { id: Integer; claims: Integer }>`
        DELETE FROM deliveries WHERE id IN ${sql.in(some)} AND state = 'running' RETURNING id, handler, lane, claims`
      const tried = gone.filter(({ claims }) => Number(claims) > 1).map(({ id }) => Number(id))
      if (tried.length > 0) yield* sql`DELETE FROM attempts WHERE delivery IN ${sql.in(tried)}`
      yield* release(gone)
    }
  })

  /** Of one that is given up because its process ended: whoever redrives it, or halves its batch, has it run alone. */
  const again = sql`CASE WHEN crashes > ${aloneAfter} THEN ${aloneAfter} ELSE crashes END`

  const settle = Effect.fnUntraced(function*(outcome: Exclude<Outcome, { readonly _tag: "Settled" }>) {
    const { deliveries } = outcome
    for (const some of Arr.chunksOf(deliveries, rowsPerStatement)) {
      const ours = sql`id IN ${sql.in(some)} AND state = 'running'`
      switch (outcome._tag) {
        case "Released":
          yield* sql`UPDATE deliveries SET state = 'due' WHERE ${ours}`
          break
        case "Again": {
          const [off] = outcome.stopped === true ? yield* sql`${writesOff}` : []
          // resumed since it was refused: nothing would wake it any more
          const isResumed = outcome.stopped === true && off === undefined
          const dueAt = isResumed ? yield* Clock.currentTimeMillis : outcome.dueAt
          yield* sql`
            UPDATE deliveries SET state = 'due', due_at = ${dueAt}, attempts = ${outcome.attempts},
              stopped = ${off === undefined ? 0 : 1}
            WHERE ${ours}`
          break
        }
        case "Dead": {
          const { failure } = outcome.attempted
          const dead = yield* sql<Lane>`
            UPDATE deliveries SET state = 'dead', attempts = ${outcome.attempts}, failure = ${fromFailure(failure)},
              died_at = ${failure.at}, crashes = ${again}
            WHERE ${ours} RETURNING handler, lane`
          yield* release(dead)
          break
        }
        case "Halved":
          break
      }
    }
    if (outcome._tag === "Halved") {
      const middle = Math.ceil(deliveries.length / 2)
      for (const [half, members] of [deliveries.slice(0, middle), deliveries.slice(middle)].entries()) {
        for (const some of Arr.chunksOf(members, rowsPerStatement)) {
          yield* sql`
            UPDATE deliveries SET state = 'due', due_at = ${outcome.dueAt}, attempts = 0,
              batch = ${`${outcome.batch}.${half}`}, crashes = ${again}
            WHERE id IN ${sql.in(some)} AND state = 'running'`
        }
      }
      yield* members.remember(deliveries)
    }
    if (outcome._tag !== "Released") yield* tell(deliveries, outcome.attempted)
  })

  // ---- claiming

  const except = ({ except }: Want) =>
    except.length === 0 ? sql.literal("") : sql`AND integration NOT IN ${sql.in(except)}`

  const meant = ({ alone }: Want) => alone === true ? sql`crashes >= ${aloneAfter}` : sql`crashes <> ${aloneAfter}`

  /** What is given up is known before another one may end the process. */
  const givenUp = ({ alone }: Want, of = "") => sql.literal(alone === true ? `${of}(crashes) DESC,` : "")

  const take = (where: ReturnType<typeof except>) =>
    sql<
      DeliveryRow
    >`UPDATE deliveries SET state = 'running', claims = claims + 1, stopped = 0 WHERE ${where} RETURNING *`

  const claimEach = (want: Want, now: number) =>
    take(sql`id IN (
      SELECT id FROM deliveries
      WHERE handler = ${want.handler} AND state = 'due' AND due_at <= ${now} AND ${meant(want)} ${except(want)}
      ORDER BY ${givenUp(want)} due_at, id LIMIT ${want.most})`)

  /** One batch holds events that were last delivered in the same batch, or never, and share a journal. */
  const claimBatches = Effect.fnUntraced(function*(want: Want & { readonly size: number }, now: number) {
    const claimed: Array<DeliveryRow> = []
    const due = sql`handler = ${want.handler} AND state = 'due' AND ${meant(want)} ${except(want)}`
    const fixed = yield* sql<{ batch: string }>`
      SELECT batch FROM deliveries WHERE ${due} AND batch IS NOT NULL AND due_at <= ${now}
      GROUP BY batch ORDER BY ${givenUp(want, "max")} min(id) LIMIT ${want.most}`
    if (fixed.length > 0) {
      claimed.push(
        ...yield* take(
          sql`handler = ${want.handler} AND state = 'due' AND batch IN ${sql.in(fixed.map(({ batch }) => batch))}`
        )
      )
    }
    let room = want.most - fixed.length
    while (room > 0) {
      const ready = yield* sql<{ integration: string }>`
        SELECT integration FROM deliveries WHERE ${due} AND batch IS NULL
        GROUP BY integration HAVING count(*) >= ${want.size} OR min(due_at) <= ${now} LIMIT ${room}`
      for (const { integration } of ready) {
        const rows = yield* sql<{ id: Integer; fresh: string | null; last: string | null }>`
          SELECT d.id, d.fresh, m.batch AS last FROM (
            SELECT id, handler, position, fresh FROM deliveries
            WHERE ${due} AND batch IS NULL AND integration = ${integration} ORDER BY id LIMIT ${want.size}
          ) AS d LEFT JOIN batch_members m ON m.handler = d.handler AND m.position = d.position ORDER BY d.id`
        const groups = [...Map.groupBy(rows, ({ fresh, last }) => JSON.stringify([fresh, last])).values()]
        for (const group of groups.slice(0, room)) {
          const ids = group.map(({ id }) => Number(id))
          const batch = BatchMembers.nameOf(group[0]?.last ?? null, ids[0] ?? 0)
          yield* sql`UPDATE deliveries SET batch = ${batch}, due_at = ${now} WHERE id IN ${sql.in(ids)}`
          yield* members.remember(ids)
          claimed.push(...yield* take(sql`id IN ${sql.in(ids)}`))
          room--
        }
      }
      if (ready.length === 0) break
    }
    return { claimed, count: want.most - room }
  })

  /** Whether of those of this handler that have seen their process end one is due or running, and one has to run alone. */
  const suspects = Effect.fnUntraced(function*(want: Want, now: number) {
    const [found] = yield* sql<{ some: Integer; alone: Integer | null }>`
      SELECT count(*) AS some, sum(CASE WHEN crashes = ${aloneAfter} AND state = 'due' THEN 1 ELSE 0 END) AS alone
      FROM deliveries
      WHERE handler = ${want.handler} AND crashes > 0 AND (state = 'running' OR (state = 'due' AND due_at <= ${now}))
        ${except(want)}`
    return { some: Number(found?.some) > 0, alone: Number(found?.alone ?? 0) > 0 }
  })

  const turn: Deliveries["Service"]["turn"] = Effect.fnUntraced(
    function*(owner, outcomes, wants) {
      yield* fence(owner)
      const now = yield* Clock.currentTimeMillis
      yield* settleAll(outcomes.flatMap(({ _tag, deliveries }) => _tag === "Settled" ? deliveries : []))
      for (const outcome of outcomes) if (outcome._tag !== "Settled") yield* settle(outcome)
      const claimed: Array<Claimed> = []
      let next = Infinity
      let alone = false
      for (const wanted of wants) {
        const { farthest, handler, size } = wanted
        if (wanted.alone === true && claimed.length > 0) break
        const found = yield* suspects(wanted, now)
        if (wanted.alone !== true && found.alone) alone = true
        const most = found.some ? Math.min(wanted.most, wanted.careful ?? wanted.most) : wanted.most
        const want = { ...wanted, most: wanted.alone === true ? 1 : most }
        yield* sql`
          UPDATE deliveries SET due_at = ${now} WHERE handler = ${handler} AND state = 'due' AND due_at > ${
          now + farthest
        }`
        const { claimed: rows, count } = size === null
          ? yield* Effect.map(claimEach(want, now), (rows) => ({ claimed: rows, count: rows.length }))
          : yield* claimBatches({ ...want, size }, now)
        claimed.push(...rows.map(toClaimed))
        if (count >= want.most) continue
        const [later] = yield* sql<{ due_at: Integer | null }>`
          SELECT min(due_at) AS due_at FROM deliveries
          WHERE handler = ${handler} AND state = 'due' AND (${meant(want)} OR due_at > ${now}) ${except(want)}`
        if (later?.due_at != null) next = Math.min(next, Number(later.due_at))
      }
      claimed.sort((a, b) => a.id - b.id)
      return { claimed, next: next === Infinity ? null : next, alone }
    },
    locks.deliveries,
    attempt("turn")
  )

  return {
    insert: (deliveries: ReadonlyArray<NewDelivery>) => step("insert")(insert(deliveries)),
    release: (lanes: ReadonlyArray<Lane>) => step("release")(release(lanes)),
    handlers: attempt("handlers")(handlers),
    open,
    dispatch,
    tick: TickTable.make(sql, { fence }, { newest, noteReader }),
    turn,
    batches: members.batches,
    entries: log.at
  }
}

export type DeliveryTable = ReturnType<typeof make>
