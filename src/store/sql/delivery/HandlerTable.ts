/**
 * Handlers and the dispatch of their deliveries: which handlers there are, up to which position of the log each has its deliveries, and its
 * last tick in each integration.
 *
 * Invariants
 * 1. The spans of a handler's ticks in an integration leave no gap since the handler's registration, except for the time in which
 *    the configuration turned the handler off   (L8)
 *
 * Gotchas
 * - While an integration is not active or the handler is off, the row of the tick stays, but the log is not kept for it.
 * - A clock that was set back reaches a scheduled time again. The second tick of that time spans other events, so it gets a journal of its
 *   own: otherwise the steps of the first one would count as done for them   (W4).
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import {
  type ConfiguredHandler,
  dedupKeysOf,
  deliveryReader,
  type HandlerState,
  type NewDelivery,
  type RegisteredHandler,
  type Tick,
  type TickSchedule
} from "../../Delivery.ts"
import type { Owner } from "../../State.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import type * as Fencing from "../Fencing.ts"
import * as Locks from "../Locks.ts"
import { activeAccount, inBatches } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import * as ClaimLimits from "./ClaimLimits.ts"
import { type DeliveryTable, fromDelivery, type OrderingKey } from "./DeliveryTable.ts"

export const make = (
  sql: SqlClient,
  { fence }: Pick<ReturnType<typeof Fencing.make>, "fence">,
  { insert, unblock }: Pick<DeliveryTable, "insert" | "unblock">
) => {
  const locks = Locks.make(sql)
  const circuits = ClaimLimits.makeCircuits(sql)
  const newest = Effect.map(
    sql<{ position: number }>`SELECT position FROM log_counter`,
    ([row]) => row?.position ?? 0
  )

  const removed = sql`SELECT id FROM integrations WHERE ${activeAccount(sql)} = ''`

  /**
   * Inside a transaction: saves the position from which deliveries still need the log. It is the lowest of: the position of each active
   * handler, the end of each last tick's span, the start of each unsettled tick's span, and the registration of each handler
   * that has no tick yet   (L8). The log is not kept for ticks that wait without limit: those of a removed integration, those of an
   * integration where the configuration turned the plugin off, and those that wait until the API accepts requests (they have a `failure`).
   * Each step of the dispatcher does this, so for each handler it reads an index in the order of the positions, up to the first match.
   * PostgreSQL would join with all rows of the other table if the conditions were `NOT EXISTS`.
   */
  const noteReader = sql`
    INSERT INTO readers (name, position) SELECT ${deliveryReader}, coalesce(
      (SELECT min(position) FROM (
        SELECT position FROM handlers WHERE active = 1 AND scheduled = 0
        UNION ALL SELECT (
            SELECT t.position FROM ticks t
            WHERE t.handler = handlers.key AND t.state = 'on' AND t.integration NOT IN (${removed})
              AND (SELECT 1 FROM deliveries d WHERE d.handler = t.handler AND d.ordering_key = t.integration
                AND d.state <> 'dead' AND d.failure IS NOT NULL LIMIT 1) IS NULL
            ORDER BY t.position LIMIT 1
          ) FROM handlers WHERE active = 1 AND scheduled = 1
        UNION ALL SELECT position FROM handlers WHERE active = 1 AND scheduled = 1
          AND (SELECT 1 FROM ticks t WHERE t.handler = handlers.key LIMIT 1) IS NULL
        UNION ALL SELECT (
            SELECT d.from_position FROM deliveries d
            WHERE d.handler = handlers.key AND d.from_position IS NOT NULL AND d.state <> 'dead' AND d.failure IS NULL
              AND d.integration NOT IN (${removed}) AND (SELECT 1 FROM ticks t
                WHERE t.handler = d.handler AND t.integration = d.integration AND t.state = 'off' LIMIT 1) IS NULL
            ORDER BY d.from_position LIMIT 1
          ) FROM handlers WHERE active = 1 AND scheduled = 1
      ) AS needed),
      (SELECT position FROM log_counter)
    ) WHERE TRUE
    ON CONFLICT (name) DO UPDATE SET position = excluded.position`

  const handlers = Effect.gen(function*() {
    const found = ClaimLimits.inOurTime(yield* circuits.read)
    const rows = yield* sql<Omit<HandlerState, "active" | "circuit"> & { active: number }>`
      SELECT key, plugin, handler, position, active FROM handlers ORDER BY key`
    return rows.map((row): HandlerState => ({
      ...row,
      active: row.active === 1,
      circuit: found.get(row.key) ?? HandlerCircuit.closed
    }))
  })

  const tickedBeyondPosition = sql<{ handler: number; integration: string; position: number }>`
    SELECT t.handler, t.integration, t.position FROM ticks t JOIN handlers h ON h.key = t.handler
    WHERE h.scheduled = 0 AND t.position > h.position`

  const saveTick = ({ handler, integration, scheduledAt }: Tick, position: number) =>
    sql`INSERT INTO ticks ${sql.insert({ handler, integration, scheduled_at: scheduledAt, position, state: "on" })}
      ON CONFLICT (handler, integration) DO UPDATE SET
        scheduled_at = excluded.scheduled_at, position = excluded.position, state = excluded.state`

  /**
   * The handler's last tick in an integration: its time and the end of its span. If there was none, the time and position from which the
   * span of the first tick starts.
   */
  const lastTick = Effect.fnUntraced(function*({ handler, integration }: Tick, lastCheckedAt: number, end: number) {
    const [last] = yield* sql<{ scheduled_at: number; position: number; state: string }>`
      SELECT scheduled_at, position, state FROM ticks WHERE handler = ${handler} AND integration = ${integration}`
    const [registered] = yield* sql<{ position: number }>`SELECT position FROM handlers WHERE key = ${handler}`
    const position = registered?.position ?? end
    if (last?.state === "on") {
      // the handler may have taken events since its last tick
      return { isFirst: false, scheduledAt: last.scheduled_at, position: Math.max(last.position, position) }
    }
    return { isFirst: true, scheduledAt: lastCheckedAt, position: last === undefined ? position : end }
  })

  /** Whether a tick of the same time has a journal, or may get one when its dead letter is redriven. */
  const isRepeated = ({ handler, integration, scheduledAt }: Tick, delivery: NewDelivery) =>
    Effect.map(
      sql`
        SELECT 1 AS found FROM journal
        WHERE handler = ${handler} AND dedup_key = ${dedupKeysOf({ ...delivery, batch: null })[0]}
        UNION ALL SELECT 1 FROM deliveries
        WHERE handler = ${handler} AND ordering_key = ${integration} AND scheduled_at = ${scheduledAt} LIMIT 1`,
      (found) => found.length > 0
    )

  return {
    handlers,
    /**
     * Registers these handlers and returns them all. Other handlers become inactive: they keep their deliveries, but the log is not kept
     * for them. Handlers with an open circuit may be tried at once, because a process that starts may have a fixed plugin. `owner`: the
     * owner of `dispatchScope`, as in the other operations that dispatch.
     */
    registerHandlers: Effect.fnUntraced(function*(owner: Owner, configured: ReadonlyArray<ConfiguredHandler>) {
      yield* fence(owner)
      const end = yield* newest
      const rows = configured.map(({ from, handler, plugin, scheduled, skipsDeadLetters }) => ({
        plugin,
        handler,
        skips_dead: Number(skipsDeadLetters),
        scheduled: Number(scheduled),
        active: 1,
        position: from === "now" ? end : 0
      }))
      yield* sql`UPDATE handlers SET active = 0`
      yield* inBatches(rows, (some) =>
        sql`
          INSERT INTO handlers ${insertion(sql, some)} ON CONFLICT (plugin, handler) DO UPDATE SET
          skips_dead = excluded.skips_dead, scheduled = excluded.scheduled, active = 1`)
      // a handler that takes events now gets none of the time in which it had no ticks because the configuration had turned it off
      yield* sql`
        UPDATE ticks SET position = ${end}, state = 'absent'
        WHERE state = 'off' AND handler IN (SELECT key FROM handlers WHERE scheduled = 0)`
      yield* noteReader
      yield* circuits.bringForward
      const parked = yield* sql<
        OrderingKey
      >`SELECT DISTINCT handler, ordering_key FROM deliveries WHERE state = 'waiting'`
      yield* unblock(parked)
      const ticked = Map.groupBy(yield* tickedBeyondPosition, ({ handler }) => handler)
      return (yield* handlers).filter(({ active }) => active).map((state): RegisteredHandler => ({
        ...state,
        ticked: new Map(ticked.get(state.key)?.map(({ integration, position }) => [integration, position]))
      }))
    }, locks.deliveries),
    /** Adds deliveries and moves `handlers` to `position`. */
    dispatch: Effect.fnUntraced(function*(
      owner: Owner,
      { deliveries, handlers, position }: {
        readonly deliveries: ReadonlyArray<NewDelivery>
        readonly handlers: ReadonlyArray<number>
        readonly position: number
      }
    ) {
      yield* fence(owner)
      yield* insert(deliveries)
      yield* inBatches(
        handlers,
        (some) => sql`UPDATE handlers SET position = ${position} WHERE key ${among(sql, some)}`
      )
      yield* noteReader
    }, locks.deliveries),
    /**
     * Creates a delivery for each due tick that has none. Returns the ticks that must wait, because the previous tick is neither settled
     * nor dead. The part of the log that a delivery spans starts
     * - at the previous tick, even if the integration was inactive in between, as far as the log still has the rows;
     * - for the first tick, and for the first one after the handler was off: when the handler was registered or switched on.
     * If the previous tick lies more than an interval ahead, our clock was set back: the due tick is created nevertheless   (W4).
     * The log is kept neither for an integration that is not active nor for a handler that is off.
     */
    dispatchTicks: Effect.fnUntraced(function*(
      owner: Owner,
      { due, integrations, lastCheckedAt, off }: TickSchedule
    ) {
      yield* fence(owner)
      const to = yield* newest
      const active = integrations.length === 0 ? sql.literal("1 = 0") : sql`integration IN ${sql.in(integrations)}`
      yield* sql`UPDATE ticks SET state = 'absent' WHERE state = 'on' AND NOT (${active})`
      yield* sql`UPDATE ticks SET state = 'on' WHERE state = 'absent' AND ${active}`
      const rows = off.map(({ handler, integration }) => (
        { handler, integration, scheduled_at: 0, position: to, state: "off" }
      ))
      yield* inBatches(rows, (some) =>
        sql`
          INSERT INTO ticks ${insertion(sql, some)}
          ON CONFLICT (handler, integration) DO UPDATE SET state = excluded.state`)
      const { ahead, now } = due.length === 0 ? { ahead: 0, now: 0 } : yield* DatabaseTime.read(sql)
      const deferred: Array<Tick> = []
      for (const each of due) {
        const { handler, integration, interval, scheduledAt } = each
        const last = yield* lastTick(each, lastCheckedAt, to)
        const wasSetBack = !last.isFirst && last.scheduledAt > scheduledAt + interval
        if (last.scheduledAt >= scheduledAt && !wasSetBack) {
          if (last.isFirst) yield* saveTick(each, last.position)
          continue
        }
        const [unsettled] = yield* sql`
          SELECT id FROM deliveries WHERE handler = ${handler} AND ordering_key = ${integration} AND state <> 'dead' LIMIT 1`
        if (unsettled !== undefined) {
          deferred.push(each)
          continue
        }
        yield* saveTick(each, to)
        const delivery: NewDelivery = {
          handler,
          integration,
          orderingKey: integration,
          subject: { _tag: "Tick", scheduledAt, from: last.position, to },
          dueAt: scheduledAt,
          dead: null,
          fresh: null
        }
        const fresh = (yield* isRepeated(each, delivery)) ? `to-${to}` : null
        const row = fromDelivery({ ...delivery, fresh }, { state: "due", createdAt: now - ahead, ahead })
        yield* sql`INSERT INTO deliveries ${sql.insert(row)}`
      }
      yield* noteReader
      return deferred
    }, locks.deliveries)
  }
}
