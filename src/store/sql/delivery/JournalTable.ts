/**
 * The journal: the steps that attempts started, with their results; and each plugin's number of writes in the current hour.
 *
 * Invariants
 * 1. An owner or a claim that is not the newest can start no step   (X16)
 * 2. Only the attempt that started a step last may complete or withdraw it
 *
 * Gotchas
 * - A step of half a batch may be in the journal of the whole batch, so a step is searched for under all its keys.
 * - The delivery that started a step may be settled long before other deliveries look for the step: a replay, or the other half of
 *   a batch.
 * - `DeliveryCommands` stores the outcomes that operators report for steps without a result. Such a result has the `answer_state` 1 until a
 *   handler has received it, then 2.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Json } from "../../../domain/ChangeEvent.ts"
import type { Model } from "../../../domain/Model.ts"
import * as WriteBudget from "../../../domain/WriteBudget.ts"
import type { BeginRefusal, BeginResult, FencingToken, Intent, StepKey } from "../../AttemptJournal.ts"
import type { ContentCipher } from "../ContentCipher.ts"
import { holdKey, stepPlace } from "../EncryptionTable.ts"
import * as Fencing from "../Fencing.ts"
import { type IntegrationRow, toIntegration } from "../IntegrationTable.ts"
import * as Locks from "../Locks.ts"
import { AllowLongStatement } from "../SqlRetry.ts"
import type { ExpectationTable } from "../stream/ExpectationTable.ts"
import { baseOf, type Batches } from "./DeliveryTable.ts"

/** The claim of a step that was never sent. No attempt has it. */
export const unsent = 0

/** Identifies a write among all writes; it stays the same when the write is sent again. */
export const writeIdOf = ({ handler, step }: Pick<StepKey, "handler" | "step">, dedup_key: string): string =>
  `${handler}/${dedup_key}/${step}`

export const make = (
  sql: SqlClient,
  cipher: ContentCipher,
  { fence }: Pick<ReturnType<typeof Fencing.make>, "fence">,
  expectations: Pick<ExpectationTable, "expect" | "tookEffect" | "withdraw">,
  members: Pick<Batches, "prune">
) => {
  const locks = Locks.make(sql)
  const base = baseOf(sql)
  const of = ({ handler, dedupKeys, step }: StepKey) =>
    sql`handler = ${handler} AND step = ${step} AND dedup_key IN ${sql.in(dedupKeys)}`
  const by = ({ claim, delivery }: FencingToken) => sql`delivery = ${delivery} AND claim = ${claim}`

  /** Decrypts the results of rows. */
  const opened =
    <R extends { readonly result: string | null }>(placeOf: (row: R) => string) => (rows: ReadonlyArray<R>) =>
      cipher.openRows(rows, "the journal", (row, open): R => ({ ...row, result: open(placeOf(row), row.result) }))

  const requireClaim = Effect.fnUntraced(function*({ claim, delivery, owner }: FencingToken) {
    yield* fence(owner)
    const [row] = yield* sql`
      SELECT id FROM deliveries WHERE id = ${delivery} AND claims = ${claim} AND state = 'running'`
    if (row === undefined) return yield* Fencing.fencedError({ scope: `delivery ${delivery}`, epoch: claim })
  })

  const fromStep = (
    { claim, delivery }: Pick<FencingToken, "claim" | "delivery">,
    { handler, integration, keepForever, dedupKeys: [dedup_key], onUnknown, step, write }:
      & StepKey
      & Partial<Pick<Intent, "integration" | "onUnknown" | "write">>,
    details: { readonly begunAt: number; readonly result: string | null }
  ) => ({
    handler,
    dedup_key,
    step,
    keep_forever: keepForever ? 1 : 0,
    write_name: write?.name ?? null,
    integration: integration ?? null,
    params: write == null ? null : JSON.stringify(write.params ?? {}),
    on_unknown: onUnknown ?? null,
    delivery,
    claim,
    begun_at: details.begunAt,
    done: details.result === null ? 0 : 1,
    result: cipher.seal(stepPlace(handler, step), details.result)
  })

  /** Counts one more write in the hour; false if the hour's budget is used up. `locks.deliveries` lets one transaction at a time count. */
  const spend = Effect.fnUntraced(
    function*({ integration, write }: Intent & { readonly write: NonNullable<Intent["write"]> }, now: number) {
      const { perHour, plugin } = write
      if (perHour === null) return true
      const [row] = yield* sql<{ hour: number; writes: number }>`
        SELECT hour, writes FROM write_budgets WHERE plugin = ${plugin} AND integration = ${integration}`
      const before = row ?? null
      const counted = WriteBudget.countWrite(before, perHour, now)
      if (counted === null) return false
      yield* sql`INSERT INTO write_budgets ${sql.insert({ plugin, integration, ...counted })}
        ON CONFLICT (plugin, integration) DO UPDATE SET hour = excluded.hour, writes = excluded.writes`
      return true
    }
  )

  /** The write that began at this time had no effect, so it no longer counts in its hour. */
  const restore = Effect.fnUntraced(function*(handler: number, integration: string, begunAt: number) {
    const [row] = yield* sql<{ plugin: string; hour: number; writes: number }>`
      SELECT b.plugin, b.hour, b.writes FROM write_budgets b JOIN handlers h ON h.plugin = b.plugin
      WHERE h.key = ${handler} AND b.integration = ${integration}`
    if (row === undefined) return
    const { writes } = WriteBudget.uncountWrite(row, begunAt)
    yield* sql`
      UPDATE write_budgets SET writes = ${writes} WHERE plugin = ${row.plugin} AND integration = ${integration}`
  })

  /**
   * Applies if an operator has reported that a request with the same target and different content happened, and no handler has received
   * that result. If `isSameRequest`, this request receives that result. Otherwise it is blocked until an operator has reported this
   * request's outcome too.
   */
  const resolvedElsewhere = Effect.fnUntraced(function*(intent: Intent, prefix: string, now: number) {
    const { handler, dedupKeys, isSameRequest } = intent
    const [reported] = yield* Effect.flatMap(
      sql<{ dedup_key: string; step: string; result: string | null; delivery: number }>`
      SELECT dedup_key, step, result, delivery FROM journal
      WHERE handler = ${handler} AND dedup_key IN ${sql.in(dedupKeys)} AND answer_state = 1
        AND substr(step, 1, length(${prefix})) = ${prefix} ORDER BY begun_at, step`,
      opened(({ step }) => stepPlace(handler, step))
    )
    if (reported === undefined) return null
    const { dedup_key, delivery, step } = reported
    yield* sql`
      UPDATE journal SET answer_state = 2 WHERE handler = ${handler} AND dedup_key = ${dedup_key} AND step = ${step}`
    const result = isSameRequest === true ? reported.result ?? "null" : null
    // no attempt has this claim, so only an operator can complete the step
    yield* sql`INSERT INTO journal ${
      sql.insert(fromStep({ delivery: delivery, claim: unsent }, intent, { begunAt: now, result }))
    }`
    return result === null ? { _tag: "NeedsReport" } as const : { _tag: "Done", result } as const
  })

  /** Another running attempt started to replace the packages of the integration, and its request has no response yet. */
  const isReplacing = (integration: string, { claim, delivery }: FencingToken) =>
    Effect.map(
      sql`
        SELECT d.id FROM deliveries d JOIN journal j ON j.delivery = d.id AND j.claim = d.claims
        WHERE d.state = 'running' AND j.done = 0 AND j.write_name = 'replacePackages' AND j.integration = ${integration}
          AND NOT (j.delivery = ${delivery} AND j.claim = ${claim}) LIMIT 1`,
      (found) => found.length > 0
    )

  /**
   * Inside a transaction: the step's journal row, if there is one, and why the step cannot start now. Not only a check: if the step gets a
   * result that an operator reported, the result counts as received, and `resolvedElsewhere` may add the step's row.
   */
  const refusal = Effect.fnUntraced(
    function*(fence: FencingToken, intent: Intent) {
      yield* requireClaim(fence)
      const [known] = yield* Effect.flatMap(
        sql<
          { dedup_key: string; done: number; result: string | null; begun_at: number; answer_state: number }
        >`SELECT dedup_key, done, result, begun_at, answer_state FROM journal WHERE ${of(intent)} ORDER BY done DESC`,
        opened(() => stepPlace(intent.handler, intent.step))
      )
      const refused = (refused: BeginRefusal) => ({ known, refused })
      if (known !== undefined && known.done === 1) {
        if (known.answer_state === 1) {
          yield* sql`UPDATE journal SET answer_state = 2 WHERE ${of(intent)} AND answer_state = 1`
        }
        return refused({ _tag: "Done", result: known.result ?? "null" })
      }
      if (known !== undefined && !intent.allowRepeat) {
        return refused({ _tag: "Unknown", begunAt: known.begun_at })
      }
      const { handler, integration, sameRequestPrefix, dedupKeys, write } = intent
      if (known === undefined && sameRequestPrefix !== undefined) {
        const [other] = yield* sql<{ begun_at: number }>`
          SELECT begun_at FROM journal WHERE handler = ${handler} AND dedup_key IN ${sql.in(dedupKeys)} AND done = 0
            AND substr(step, 1, length(${sameRequestPrefix})) = ${sameRequestPrefix} AND NOT (${by(fence)})`
        if (other !== undefined) return refused({ _tag: "Unknown", begunAt: other.begun_at })
        const resolved = yield* resolvedElsewhere(intent, sameRequestPrefix, yield* Clock.currentTimeMillis)
        if (resolved !== null) return refused(resolved)
      }
      if (write !== null) {
        const [stopped] = yield* sql`SELECT plugin FROM switched_off WHERE plugin = '' AND integration = ''`
        if (stopped !== undefined) return refused({ _tag: "Stopped" })
        const [row] = yield* sql<IntegrationRow>`SELECT id, state FROM integrations WHERE id = ${integration}`
        if (row !== undefined && (yield* toIntegration(row)).state !== "active") return refused({ _tag: "Removed" })
        if (write.name === "replacePackages" && (yield* isReplacing(integration, fence))) {
          return refused({ _tag: "Busy" })
        }
      }
      return { known, refused: null }
    }
  )

  return {
    check: (fence: FencingToken) => locks.deliveries(requireClaim(fence)),
    result: (key: StepKey) =>
      sql<{ result: string | null }>`SELECT result FROM journal WHERE ${of(key)} AND done = 1`.pipe(
        Effect.flatMap(opened(() => stepPlace(key.handler, key.step))),
        Effect.map(([row]) => row?.result ?? null)
      ),
    checkBegin: (fence: FencingToken, intent: Intent) =>
      refusal(fence, intent).pipe(Effect.map(({ refused }) => refused), locks.deliveries),
    begin: Effect.fnUntraced(function*(fence: FencingToken, intent: Intent) {
      const { known, refused } = yield* refusal(fence, intent)
      const result = (result: BeginResult) => result
      if (refused !== null) return result(refused)
      const now = yield* Clock.currentTimeMillis
      const { write } = intent
      if (write !== null && !(yield* spend({ ...intent, write }, now))) {
        return result({ _tag: "BudgetExhausted", until: WriteBudget.hourEnd(now) })
      }
      if (known === undefined) {
        const row = fromStep(fence, intent, { begunAt: now, result: null })
        yield* sql`INSERT INTO journal ${sql.insert(row)}`
      } else {
        yield* sql`
          UPDATE journal SET delivery = ${fence.delivery}, claim = ${fence.claim}, begun_at = ${now}
          WHERE ${of(intent)} AND done = 0`
      }
      if (write !== null) {
        const { depth, expected, name, plugin } = write
        const id = writeIdOf(intent, known?.dedup_key ?? intent.dedupKeys[0])
        const { integration } = intent
        yield* expectations.expect(
          { write: id, name, integration, plugin, delivery: String(fence.delivery), depth },
          expected
        )
      }
      return result({ _tag: "Begun" })
    }, locks.deliveries),
    finish: Effect.fnUntraced(function*(
      fence: FencingToken,
      key: StepKey,
      result: Json,
      created: Readonly<Partial<Record<Model, string>>> = {}
    ) {
      // another process may own the shard now, and may have retired the key
      yield* holdKey(sql, cipher)
      const finished = yield* sql<{ dedup_key: string; write_name: string | null }>`
        UPDATE journal SET done = 1, result = ${cipher.seal(stepPlace(key.handler, key.step), result)} WHERE ${
        of(key)
      } AND done = 0 AND ${by(fence)}
        RETURNING dedup_key, write_name`
      for (const { dedup_key, write_name } of finished) {
        if (write_name !== null) yield* expectations.tookEffect(writeIdOf(key, dedup_key), created)
      }
      if (finished.length > 0) return
      const begunAt = yield* Clock.currentTimeMillis
      yield* sql`INSERT INTO journal ${sql.insert(fromStep(fence, key, { begunAt, result }))}
        ON CONFLICT (handler, dedup_key, step) DO NOTHING`
    }, locks.deliveries),
    withdraw: Effect.fnUntraced(function*(fence: FencingToken, key: StepKey) {
      const withdrawn = yield* sql<
        { dedup_key: string; write_name: string | null; integration: string | null; begun_at: number }
      >`
        DELETE FROM journal WHERE ${of(key)} AND done = 0 AND ${by(fence)}
        RETURNING dedup_key, write_name, integration, begun_at`
      for (const { begun_at, dedup_key, integration, write_name } of withdrawn) {
        if (write_name === null) continue
        yield* expectations.withdraw(writeIdOf(key, dedup_key))
        yield* restore(key.handler, integration ?? "", begun_at)
      }
    }, locks.deliveries),
    /**
     * Deletes journal rows of steps that started before `before`, unless a delivery or a replay can still need them. A replay can need
     * them as long as the log has the event, and the log keeps events until all readers have read them. Returns how many were deleted.
     */
    // `NOT IN` is safe only for batches, of which there are few: PostgreSQL compares each row with each element of a list that does not
    // fit into its memory for hashing
    prune: (before: number) =>
      sql`
        DELETE FROM journal WHERE keep_forever = 0 AND begun_at < ${before}
          AND (dedup_key LIKE 't%' OR begun_at < coalesce(
            (SELECT appended_at FROM events WHERE position = (SELECT pruned + 1 FROM log_counter)), ${before}))
          AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = journal.delivery)
          AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.handler = journal.handler AND d.position = ${base.position})
          AND (dedup_key NOT LIKE 'b%' OR (handler, ${base.key}) NOT IN (
            SELECT DISTINCT handler, 'b' || ${base.batch("batch")} FROM deliveries WHERE batch IS NOT NULL
            UNION ALL SELECT DISTINCT m.handler, 'b' || ${base.batch("m.batch")} FROM batch_members m
              JOIN deliveries d ON d.handler = m.handler AND d.position = m.position
          )) RETURNING handler`.pipe(
        Effect.map((rows) => rows.length),
        Effect.tap(members.prune),
        Effect.provideService(AllowLongStatement, true)
      )
  }
}
