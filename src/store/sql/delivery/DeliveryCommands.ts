/**
 * Operators' commands for deliveries: redrive, discard, replay, switches, and the outcomes that operators report for journal steps with an
 * unknown outcome.
 *
 * Invariants
 * 1. No command changes a claimed delivery
 * 2. A command's audit entry is committed together with its effect   (I2)
 * 3. A dead letter is redriven or discarded once, even if the command is sent twice. Both commands hold the deliveries lock, and change
 *    only deliveries that are dead and, for a plan, that died at the time in the plan
 * 4. A report applies only to the state of the step that the operator saw. It is refused if the step was sent again, resolved or
 *    finished since, or if its attempt is running
 *
 * Gotchas
 * - A step that runs once per record may have been started by a delivery that has been settled or discarded since.
 * - If the API's response arrives after the operator's report, the reported result stays: `finish` does not overwrite a result.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { hash } from "node:crypto"
import type { WriteName } from "../../../api/Writes.ts"
import type { Resolution, ResolveResult, Switch, UnresolvedStep } from "../../DeadLetters.ts"
import type { HandlerName, NewDelivery } from "../../Delivery.ts"
import type { OperatorAction } from "../../Operators.ts"
import * as AuditTable from "../AuditTable.ts"
import type { ContentCipher } from "../ContentCipher.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import { holdKey, stepPlace } from "../EncryptionTable.ts"
import * as Locks from "../Locks.ts"
import { rowsPerStatement } from "../Rows.ts"
import type { Signals } from "../Signals.ts"
import type { ExpectationTable } from "../stream/ExpectationTable.ts"
import { all } from "./DeliveryQueries.ts"
import type { DeliveryTable, OrderingKey } from "./DeliveryTable.ts"
import { unsent, writeIdOf } from "./JournalTable.ts"

interface UnresolvedRow {
  readonly handler: number
  readonly dedup_key: string
  readonly step: string
  readonly write_name: WriteName | null
  readonly integration: string | null
  readonly params: string | null
  readonly delivery: number
  readonly claim: number
  readonly begun_at: number
  readonly done: number
  readonly result: string | null
  readonly shown_by: string | null
  readonly running: number
}

const nameOf = ({ begun_at, claim, dedup_key, delivery, handler, result, step }: UnresolvedRow): string =>
  hash("sha256", JSON.stringify([handler, dedup_key, step, delivery, claim, begun_at].map(String).concat(result ?? "")))
    .slice(0, 12)

const stateOf = ({ claim, done, running }: UnresolvedRow): UnresolvedStep["state"] => {
  if (done === 1) return "answered"
  if (running > 0) return "running"
  return claim === unsent ? "unsent" : "unknown"
}

const toUnresolvedStep = (row: UnresolvedRow): UnresolvedStep => ({
  name: nameOf(row),
  step: row.step,
  write: row.write_name,
  target: row.integration === null || row.params === null
    ? null
    : { integration: row.integration, params: JSON.parse(row.params) },
  begunAt: row.begun_at,
  delivery: row.delivery,
  state: stateOf(row),
  shownBy: row.shown_by === null ? null : JSON.parse(row.shown_by)
})

export const make = (
  sql: SqlClient,
  signals: Signals["Service"],
  cipher: ContentCipher,
  { insertWithIds, unblock }: Pick<DeliveryTable, "insertWithIds" | "unblock">,
  expectations: Pick<ExpectationTable, "tookEffect" | "withdraw">
) => {
  const locks = Locks.make(sql)

  /** A step of an open transaction: adds the action to the audit log, and wakes `awaitCommand` after the commit. */
  const recordAction = (action: OperatorAction) =>
    Effect.andThen(AuditTable.make(sql).recordAction(action), signals.raise("command"))

  // ---- dead letters

  /** The ids of the dead letters that died at the given time and have not died again since. */
  const stillDeadSince = (ids: ReadonlyArray<number>, died: ReadonlyMap<number, number>) =>
    Effect.map(
      sql<{ id: number; died_at: number }>`
        SELECT id, died_at FROM deliveries WHERE id IN ${sql.in(ids)} AND state = 'dead'`,
      (rows) => rows.flatMap(({ died_at, id }) => died.get(id) === died_at ? [id] : [])
    )

  /**
   * Applies `change` to the deliveries that are dead, unblocks the deliveries that wait for them, and returns how many were dead. The detail
   * of `action` begins with the number of `ids`: if another operator was faster, the audit log has how many were left.
   */
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
    yield* recordAction(count === ids.length ? action : { ...action, detail: `${count} of ${action.detail}` })
    return count
  }, locks.deliveries)

  const revive = (ids: ReadonlyArray<number>, dueAt: number, fresh: string | null) =>
    Effect.flatMap(DatabaseTime.read(sql), ({ ahead }) =>
      sql<OrderingKey>`
        UPDATE deliveries SET state = 'waiting', due_at = ${
        dueAt + ahead
      }, attempts = 0, failure = NULL, died_at = NULL, cause = NULL,
          fresh = ${fresh === null ? sql`fresh` : fresh}, batch = NULL
        WHERE id IN ${sql.in(ids)} AND state = 'dead' RETURNING handler, ordering_key`)

  // ---- unresolved steps

  /** Leaves out steps that an attempt repeats without an operator's report. */
  const unresolved = (delivery: number, dedupKeys: ReadonlyArray<string>) =>
    sql<UnresolvedRow>`
      SELECT j.handler, j.dedup_key, j.step, j.write_name, j.integration, j.params, j.delivery, j.claim, j.begun_at,
        j.done, j.result, j.shown_by, (SELECT count(*) FROM deliveries r
          WHERE r.id = j.delivery AND r.claims = j.claim AND r.state = 'running') AS running
      FROM deliveries d JOIN journal j ON j.handler = d.handler AND j.dedup_key IN ${sql.in(dedupKeys)}
      WHERE d.id = ${delivery} AND (j.answer_state = 1 OR (j.done = 0 AND coalesce(j.on_unknown, '') <> 'repeat'))
      ORDER BY j.begun_at, j.step`.pipe(
      Effect.flatMap((rows) =>
        cipher.openRows(rows, "the journal", (row, open): UnresolvedRow => ({
          ...row,
          result: open(stepPlace(row.handler, row.step), row.result)
        }))
      )
    )

  return {
    /**
     * Makes dead letters due at `dueAt`, with the full number of attempts. `fresh`: as in `NewDelivery`. `died`: when each of them
     * died, by id; one that died at another time, because it was redriven and failed again, is skipped. Returns how many became due.
     */
    redrive: (
      ids: ReadonlyArray<number>,
      { died, dueAt, fresh }: {
        readonly dueAt: number
        readonly fresh: string | null
        readonly died?: ReadonlyMap<number, number>
      },
      action: OperatorAction
    ) => changeDeadLetters(ids, died, action, (some) => revive(some, dueAt, fresh)),
    /** Deletes dead letters, which unblocks the deliveries parked behind them. `died`: as for `redrive`. Returns how many were deleted. */
    discard: (ids: ReadonlyArray<number>, action: OperatorAction, died?: ReadonlyMap<number, number>) =>
      changeDeadLetters(ids, died, action, (some) =>
        sql<OrderingKey>`
          DELETE FROM deliveries WHERE id IN ${sql.in(some)} AND state = 'dead' RETURNING handler, ordering_key`.pipe(
          Effect.tap(
            sql`DELETE FROM attempts WHERE delivery IN ${sql.in(some)}
              AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = attempts.delivery)`
          )
        )),
    /** Adds deliveries again, after those that already have the same ordering key. Returns their ids. */
    replay: (deliveries: ReadonlyArray<NewDelivery>, action: OperatorAction) =>
      insertWithIds(deliveries).pipe(Effect.tap(recordAction(action)), locks.deliveries),
    /** Unresolved steps with these keys that block an attempt at this dead letter, oldest first. Steps that may be repeated block none. */
    unresolvedSteps: (delivery: number, dedupKeys: ReadonlyArray<string>) =>
      Effect.map(unresolved(delivery, dedupKeys), Arr.map(toUnresolvedStep)),
    /**
     * Resolves the step with this name. If it was the last unresolved one, the dead letter is redriven, due at `dueAt`. The outcome and the
     * change of the write's expectations are part of the same transaction   (I2).
     */
    resolve: Effect.fnUntraced(function*(
      delivery: number,
      dedupKeys: ReadonlyArray<string>,
      name: string,
      resolution: Resolution,
      dueAt: number,
      action: OperatorAction
    ) {
      const refused = (_tag: Exclude<ResolveResult["_tag"], "Resolved">): ResolveResult => ({ _tag })
      const [dead] = yield* sql`SELECT id FROM deliveries WHERE id = ${delivery} AND state = 'dead'`
      if (dead === undefined) return refused("NotDeadLetter")
      const rows = yield* unresolved(delivery, dedupKeys)
      const row = rows.find((one) => nameOf(one) === name)
      if (row === undefined) return refused("Outdated")
      if (stateOf(row) === "running") return refused("Running")
      const { dedup_key, handler, step } = row
      const isStep = sql`handler = ${handler} AND dedup_key = ${dedup_key} AND step = ${step}`
      const write = writeIdOf({ handler, step }, dedup_key)
      if (resolution._tag === "Happened") {
        yield* holdKey(sql, cipher)
        const sealed = cipher.seal(stepPlace(handler, step), resolution.result)
        yield* sql`UPDATE journal SET done = 1, result = ${sealed}, answer_state = 1 WHERE ${isStep}`
        yield* expectations.tookEffect(write, resolution.created)
      } else {
        yield* sql`DELETE FROM journal WHERE ${isStep}`
        yield* expectations.withdraw(write)
      }
      const left = rows.filter((one) => one !== row && one.done === 0).length
      if (left === 0) yield* Effect.flatMap(revive([delivery], dueAt, null), unblock)
      yield* recordAction(action)
      return { _tag: "Resolved", left } satisfies ResolveResult
    }, locks.deliveries),
    /** Permits the next trial of an open circuit at once. Returns false if the circuit of the handler is not open. */
    tryCircuit: Effect.fnUntraced(function*({ handler, plugin }: HandlerName, action: OperatorAction) {
      const { now } = yield* DatabaseTime.read(sql)
      const changed = yield* sql`
        UPDATE handler_circuits SET open_until = ${now}
        WHERE open_until IS NOT NULL
          AND handler = (SELECT key FROM handlers WHERE plugin = ${plugin} AND handler = ${handler})
        RETURNING handler`
      if (changed.length > 0) yield* recordAction(action)
      return changed.length > 0
    }, locks.deliveries),
    /** Sets a switch. If this resumes writes, the deliveries that waited for them become due. */
    setSwitch: Effect.fnUntraced(function*(which: Switch, on: boolean, action: OperatorAction) {
      const key = which._tag === "Writes"
        ? { plugin: all, integration: all }
        : { plugin: which.plugin, integration: which.integration ?? all }
      yield* on
        ? sql`DELETE FROM switched_off WHERE plugin = ${key.plugin} AND integration = ${key.integration}`
        : sql`INSERT INTO switched_off ${sql.insert(key)} ON CONFLICT (plugin, integration) DO NOTHING`
      if (on && which._tag === "Writes") {
        const { now } = yield* DatabaseTime.read(sql)
        yield* sql`UPDATE deliveries SET due_at = ${now}, stopped = 0 WHERE stopped = 1`
      }
      yield* recordAction(action)
    }, locks.deliveries)
  }
}
