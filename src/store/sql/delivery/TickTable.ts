/**
 * The last tick of each handler in each integration, and the creation of deliveries for the next ticks.
 *
 * Invariants
 * 1. The spans of a handler's ticks in an integration leave no gap since the handler's registration, except for the time in which
 *    the configuration turned the handler off   (L8)
 *
 * Gotchas
 * - While an integration is not active or the handler is off, the row stays, but the log is not kept for it.
 * - A clock that was set back reaches a scheduled time again. The second tick of that time spans other events, so it gets a journal of its
 *   own: otherwise the steps of the first one would count as done for them   (W4).
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Deliveries, Tick } from "../../Deliveries.ts"
import { dedupKeysOf, type NewDelivery } from "../../Delivery.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import type * as Fencing from "../Fencing.ts"
import * as Locks from "../Locks.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { insertion } from "../RowValues.ts"
import { withRetry } from "../SqlRetry.ts"
import { fromDelivery } from "./DeliveryRows.ts"

/** `newest`: the newest position of the log; `noteReader`: saves the position from which deliveries need the log. */
export const make = (
  sql: SqlClient,
  { fence }: Pick<ReturnType<typeof Fencing.make>, "fence">,
  { newest, noteReader }: {
    readonly newest: Effect.Effect<number, SqlError>
    readonly noteReader: Effect.Effect<unknown, SqlError>
  }
): Deliveries["Service"]["dispatchTicks"] => {
  const locks = Locks.make(sql)

  const saveTick = ({ handler, integration, scheduledAt }: Tick, position: number) =>
    sql`INSERT INTO ticks ${sql.insert({ handler, integration, scheduled_at: scheduledAt, position, state: "on" })}
      ON CONFLICT (handler, integration) DO UPDATE SET
        scheduled_at = excluded.scheduled_at, position = excluded.position, state = excluded.state`

  /**
   * The handler's last tick in an integration: its time and the end of its span. If there was none, the time and position from which the
   * span of the first tick starts.
   */
  const lastTick = Effect.fnUntraced(function*({ handler, integration }: Tick, lastCheckedAt: number, end: number) {
    const [last] = yield* sql<{ scheduled_at: Integer; position: Integer; state: string }>`
      SELECT scheduled_at, position, state FROM ticks WHERE handler = ${handler} AND integration = ${integration}`
    const [registered] = yield* sql<{ position: Integer }>`SELECT position FROM handlers WHERE key = ${handler}`
    const position = Number(registered?.position ?? end)
    if (last?.state === "on") {
      // the handler may have taken events since its last tick
      return {
        isFirst: false,
        scheduledAt: Number(last.scheduled_at),
        position: Math.max(Number(last.position), position)
      }
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

  return Effect.fnUntraced(
    function*(owner, { due, integrations, lastCheckedAt, off }) {
      yield* fence(owner)
      const to = yield* newest
      const active = integrations.length === 0 ? sql.literal("1 = 0") : sql`integration IN ${sql.in(integrations)}`
      yield* sql`UPDATE ticks SET state = 'absent' WHERE state = 'on' AND NOT (${active})`
      yield* sql`UPDATE ticks SET state = 'on' WHERE state = 'absent' AND ${active}`
      const rows = off.map(({ handler, integration }) => ({
        handler,
        integration,
        scheduled_at: 0,
        position: to,
        state: "off"
      }))
      for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
        yield* sql`INSERT INTO ticks ${insertion(sql, some)}
          ON CONFLICT (handler, integration) DO UPDATE SET state = excluded.state`
      }
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
    },
    locks.deliveries,
    withRetry("dispatchTicks")
  )
}
