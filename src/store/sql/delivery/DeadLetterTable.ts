/**
 * Operators' queries and commands for deliveries: backlog, dead letters with their details, redrive, discard, replay.
 *
 * Invariants
 * 1. No command changes a claimed delivery
 * 2. A command's audit entry is committed together with its effect   (I2)
 * 3. A dead letter is redriven or discarded once, even if the command is sent twice. Both commands hold the deliveries lock, and change
 *    only deliveries that are dead and, for a plan, that died at the time in the plan
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { Kind } from "../../../domain/ChangeEvent.ts"
import { sizeOf } from "../../../domain/DeliveryProgress.ts"
import type { Model } from "../../../domain/Model.ts"
import type { DeadLetter } from "../../DeadLetters.ts"
import type { Backlog, Deliveries } from "../../Deliveries.ts"
import { keysWithoutBatch } from "../../Delivery.ts"
import type { OperatorAction } from "../../Operators.ts"
import * as AuditTable from "../AuditTable.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import * as Locks from "../Locks.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import type { Signals } from "../Signals.ts"
import { withRetry } from "../SqlRetry.ts"
import { type DeliveryRow, toDelivery, toFailure } from "./DeliveryRows.ts"
import type { DeliveryTable } from "./DeliveryTable.ts"
import type { OrderingKey } from "./OrderedDeliveries.ts"

interface DeadRow extends DeliveryRow {
  readonly plugin: string
  readonly handler_name: string
  readonly event_id: string | null
  readonly model: Model | null
  readonly record: string | null
  readonly version: Integer | null
  readonly kind: Kind | null
  readonly parked: Integer
}

const toDeadLetter = (row: DeadRow): DeadLetter => ({
  ...toDelivery(row),
  plugin: row.plugin,
  handler: row.handler_name,
  event: row.event_id === null || row.model === null || row.record === null || row.kind === null ? null : {
    eventId: row.event_id,
    model: row.model,
    id: row.record,
    version: Number(row.version),
    kind: row.kind
  },
  failure: toFailure(row.failure ?? "null"),
  parked: Number(row.parked)
})

/** SQLite limits the nesting depth of a condition. */
const rangesPerStatement = 100

export const make = (
  sql: SqlClient,
  signals: Signals["Service"],
  { insertWithIds, unblock }: Pick<DeliveryTable, "insertWithIds" | "unblock">
) => {
  const locks = Locks.make(sql)

  const recordAction = (action: OperatorAction) =>
    Effect.andThen(AuditTable.make(sql).recordAction(action), signals.raise("command"))

  // ---- queries

  const backlogAt = (now: number) =>
    sql<
      & Pick<Backlog, "plugin" | "handler" | "integration">
      & {
        waiting: Integer
        due: Integer
        later: Integer
        running: Integer
        dead: Integer
        oldest: Integer | null
        blocked: string | null
      }
    >`
    SELECT h.plugin, h.handler, d.integration,
      sum(CASE d.state WHEN 'waiting' THEN 1 ELSE 0 END) AS waiting,
      sum(CASE WHEN d.state = 'due' AND d.due_at <= ${now} THEN 1 ELSE 0 END) AS due,
      sum(CASE WHEN d.state = 'due' AND d.due_at > ${now} THEN 1 ELSE 0 END) AS later,
      sum(CASE d.state WHEN 'running' THEN 1 ELSE 0 END) AS running,
      sum(CASE d.state WHEN 'dead' THEN 1 ELSE 0 END) AS dead,
      min(CASE d.state WHEN 'dead' THEN NULL ELSE d.created_at END) AS oldest,
      max(CASE d.state WHEN 'dead' THEN NULL ELSE d.failure END) AS blocked
    FROM deliveries d JOIN handlers h ON h.key = d.handler
    GROUP BY h.plugin, h.handler, d.integration ORDER BY h.plugin, h.handler, d.integration`.pipe(
      Effect.map(Arr.map((row): Backlog => ({
        ...row,
        waiting: Number(row.waiting),
        due: Number(row.due),
        later: Number(row.later),
        running: Number(row.running),
        dead: Number(row.dead),
        oldest: row.oldest === null ? null : Number(row.oldest),
        blocked: row.blocked === null ? null : toFailure(row.blocked).message
      }))),
      withRetry("backlog")
    )
  const backlog = Effect.flatMap(withRetry("backlog")(DatabaseTime.read(sql)), ({ now }) => backlogAt(now))

  const dead = (condition: Fragment, limit: number) =>
    sql<DeadRow>`
      SELECT d.*, h.plugin, h.handler AS handler_name, e.event_id, s.model, e.id AS record, e.version, e.kind,
        (SELECT count(*) FROM deliveries w
          WHERE w.handler = d.handler AND w.ordering_key = d.ordering_key AND w.state = 'waiting' AND w.id > d.id
        ) AS parked
      FROM deliveries d
      JOIN handlers h ON h.key = d.handler
      LEFT JOIN events e ON e.position = d.position
      LEFT JOIN streams s ON s.key = e.stream
      WHERE d.state = 'dead' AND ${condition} ORDER BY d.id LIMIT ${limit}`.pipe(Effect.map(Arr.map(toDeadLetter)))

  const deadLetters: Deliveries["Service"]["deadLetters"] = (query) => {
    const { after = 0, handler, integration, limit, plugin, reason, since, until } = query
    return withRetry("deadLetters")(dead(
      sql.and([
        sql`d.id > ${after}`,
        ...plugin === undefined ? [] : [sql`h.plugin = ${plugin}`],
        ...handler === undefined ? [] : [sql`h.handler = ${handler}`],
        ...integration === undefined ? [] : [sql`d.integration = ${integration}`],
        ...reason === undefined ? [] : [sql`d.failure LIKE ${`{"reason":"${reason}"%`}`],
        ...since === undefined ? [] : [sql`d.died_at >= ${since}`],
        ...until === undefined ? [] : [sql`d.died_at < ${until}`]
      ]),
      limit
    ))
  }

  const deadLetterDetail: Deliveries["Service"]["deadLetterDetail"] = Effect.fnUntraced(
    function*(id) {
      const [letter] = yield* dead(sql`d.id = ${id}`, 1)
      if (letter === undefined) return null
      const attempts = yield* sql<{ number: Integer; details: string }>`
        SELECT number, details FROM attempts WHERE delivery = ${id} ORDER BY number`
      const steps = yield* sql<{ step: string; write_name: string | null; done: Integer; begun_at: Integer }>`
        SELECT step, write_name, done, begun_at FROM journal
        WHERE delivery = ${id} OR (dedup_key IN ${sql.in(keysWithoutBatch(letter))}
          AND handler = (SELECT handler FROM deliveries WHERE id = ${id}))
        ORDER BY begun_at, step`
      return {
        ...letter,
        failedAttempts: attempts.map((row) => ({ number: Number(row.number), ...JSON.parse(row.details) })),
        journal: steps.map((row) => ({
          step: row.step,
          write: row.write_name,
          done: Number(row.done) === 1,
          begunAt: Number(row.begun_at)
        }))
      }
    },
    withRetry("deadLetterDetail")
  )

  const progressOf: Deliveries["Service"]["progressOf"] = Effect.fnUntraced(
    function*(ranges) {
      let [open, dead] = [0, 0]
      for (const some of Arr.chunksOf(ranges, rangesPerStatement)) {
        const rows = yield* sql<{ is_dead: Integer; count: Integer }>`
          SELECT CASE WHEN state = 'dead' THEN 1 ELSE 0 END AS is_dead, count(*) AS count FROM deliveries
          WHERE ${sql.or(some.map(({ first, last }) => sql`id BETWEEN ${first} AND ${last}`))} GROUP BY 1`
        for (const { count, is_dead } of rows) {
          if (Number(is_dead) === 1) dead += Number(count)
          else open += Number(count)
        }
      }
      return { done: sizeOf(ranges) - open - dead, open, dead }
    },
    withRetry("progressOf")
  )

  // ---- commands

  /** The ids of the dead letters that died at the given time and have not died again since. */
  const stillDeadSince = (ids: ReadonlyArray<number>, died: ReadonlyMap<number, number>) =>
    sql<{ id: Integer; died_at: Integer }>`
      SELECT id, died_at FROM deliveries WHERE id IN ${sql.in(ids)} AND state = 'dead'`.pipe(
      Effect.map((rows) => rows.map((row) => [Number(row.id), Number(row.died_at)] as const)),
      Effect.map((rows) => rows.flatMap(([id, at]) => died.get(id) === at ? [id] : []))
    )

  /** Applies `change` to the deliveries that are dead, unblocks the deliveries that wait for them, and returns how many were dead. */
  const changeDeadLetters = Effect.fnUntraced(function*(
    ids: ReadonlyArray<number>,
    died: ReadonlyMap<number, number> | undefined,
    action: OperatorAction,
    change: (some: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<OrderingKey>, SqlError>
  ) {
    let count = 0
    for (const chunk of Arr.chunksOf(ids, rowsPerStatement)) {
      const some = died === undefined ? chunk : yield* stillDeadSince(chunk, died)
      if (some.length === 0) continue
      const changed = yield* change(some)
      yield* unblock(changed)
      count += changed.length
    }
    yield* recordAction(action)
    return count
  }, locks.deliveries)

  const revive = (ids: ReadonlyArray<number>, dueAt: number, fresh: string | null) =>
    Effect.flatMap(DatabaseTime.read(sql), ({ ahead }) =>
      sql<OrderingKey>`
        UPDATE deliveries SET state = 'waiting', due_at = ${
        dueAt + ahead
      }, attempts = 0, failure = NULL, died_at = NULL,
          fresh = ${fresh === null ? sql`fresh` : fresh}, batch = NULL
        WHERE id IN ${sql.in(ids)} AND state = 'dead' RETURNING handler, ordering_key`)

  const redrive: Deliveries["Service"]["redrive"] = (ids, { died, dueAt, fresh }, action) =>
    changeDeadLetters(ids, died, action, (some) => revive(some, dueAt, fresh)).pipe(withRetry("redrive"))

  const discard: Deliveries["Service"]["discard"] = (ids, action, died) =>
    changeDeadLetters(ids, died, action, (some) =>
      sql<OrderingKey>`
        DELETE FROM deliveries WHERE id IN ${sql.in(some)} AND state = 'dead' RETURNING handler, ordering_key`.pipe(
        Effect.tap(
          sql`DELETE FROM attempts WHERE delivery IN ${sql.in(some)}
            AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = attempts.delivery)`
        )
      )).pipe(withRetry("discard"))

  const replay: Deliveries["Service"]["replay"] = (deliveries, action) =>
    insertWithIds(deliveries).pipe(Effect.tap(recordAction(action)), locks.deliveries, withRetry("replay"))

  return {
    service: {
      backlog,
      deadLetters,
      deadLetterDetail,
      progressOf,
      redrive,
      discard,
      replay,
      awaitCommand: (seen: number) => signals.after("command", seen)
    },
    /** A step of an open transaction: adds the action to the audit log, and wakes `awaitCommand` after the commit. */
    recordAction,
    /** A step of an open transaction: redrives the delivery, due at `dueAt`, if it is a dead letter. */
    redriveOne: (id: number, dueAt: number) => Effect.flatMap(revive([id], dueAt, null), unblock)
  }
}

export type DeadLetterTable = ReturnType<typeof make>
