/**
 * The journal: what attempts began and what came of it; the hour's writes of each plugin.
 *
 * Invariants
 * 1. Nothing is begun for an owner or a claim that is not the newest   (X16)
 * 2. Of what was begun nobody but the attempt that began it last says what became of it
 *
 * Gotchas
 * - A step of a half of a batch may stand in the journal of the whole: it is looked for under every key.
 * - Who began a step may be settled long before the others that look for it: a replay, the other half of a batch.
 * - What operators say of steps without a result is in `AnswerTable`.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { BeginRefusal, BeginResult, Deliveries, FencingToken, Intent, StepKey } from "../../Deliveries.ts"
import type { StoreError } from "../../Store.ts"
import * as Fencing from "../Fencing.ts"
import * as Locks from "../Locks.ts"
import { type Integer, type IntegrationRow, toIntegration } from "../Rows.ts"
import { AllowLongStatement, toStoreError, withRetry } from "../SqlRetry.ts"
import type { ExpectationTable } from "../stream/ExpectationTable.ts"
import * as BatchTable from "./BatchTable.ts"

const hourMillis = 3_600_000
/** Claim of what was never sent. */
export const unsent = 0

/** One write, sent once or again, among all there are. */
export const writeIdOf = ({ handler, step }: Pick<StepKey, "handler" | "step">, dedup_key: string): string =>
  `${handler}/${dedup_key}/${step}`

export const make = (
  sql: SqlClient,
  { fence }: Pick<ReturnType<typeof Fencing.make>, "fence">,
  expectations: Pick<ExpectationTable, "expect" | "answered" | "withdraw">
) => {
  const locks = Locks.make(sql)
  const members = BatchTable.make(sql)
  const of = ({ handler, dedupKeys, step }: StepKey) =>
    sql`handler = ${handler} AND step = ${step} AND dedup_key IN ${sql.in(dedupKeys)}`
  const by = ({ claim, delivery }: FencingToken) => sql`delivery = ${delivery} AND claim = ${claim}`

  const requireClaim = Effect.fnUntraced(function*({ claim, delivery, owner }: FencingToken) {
    yield* fence(owner)
    const [row] = yield* sql`
      SELECT id FROM deliveries WHERE id = ${delivery} AND claims = ${claim} AND state = 'running'`
    if (row === undefined) return yield* Fencing.fencedError({ scope: `delivery ${delivery}`, epoch: claim })
  }, toStoreError("check"))

  const check: Deliveries["Service"]["check"] = (fence) =>
    requireClaim(fence).pipe(locks.deliveries, withRetry("check"))

  const result: Deliveries["Service"]["result"] = (key) =>
    sql<{ result: string }>`SELECT result FROM journal WHERE ${of(key)} AND done = 1`.pipe(
      Effect.map(([row]) => row?.result ?? null),
      withRetry("result")
    )

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
    result: details.result
  })

  /** One write more of the hour; false if it has no more. */
  const spend = Effect.fnUntraced(
    function*({ integration, write }: Intent & { readonly write: NonNullable<Intent["write"]> }, hour: number) {
      const row = { plugin: write.plugin, integration, hour, writes: 1 }
      if (write.perHour === null) return true
      if (write.perHour < 1) return false
      const spent = yield* sql`INSERT INTO write_budgets ${
        sql.insert(row)
      } ON CONFLICT (plugin, integration) DO UPDATE SET
        writes = CASE WHEN write_budgets.hour = excluded.hour THEN write_budgets.writes + 1 ELSE 1 END, hour = excluded.hour
        WHERE write_budgets.hour <> excluded.hour OR write_budgets.writes < ${write.perHour} RETURNING writes`
      return spent.length > 0
    }
  )

  /**
   * Of a request in other words than one that an operator said happened, while no handler was given that answer: it is
   * given to this one, or kept back until an operator has said of this one too whether it happened.
   */
  const resolvedElsewhere = Effect.fnUntraced(function*(intent: Intent, kin: string, now: number) {
    const { handler, dedupKeys, isSameRequest } = intent
    const [answer] = yield* sql<{ dedup_key: string; step: string; result: string | null; delivery: Integer }>`
      SELECT dedup_key, step, result, delivery FROM journal
      WHERE handler = ${handler} AND dedup_key IN ${sql.in(dedupKeys)} AND answer_state = 1
        AND substr(step, 1, length(${kin})) = ${kin} ORDER BY begun_at, step`
    if (answer === undefined) return null
    const { dedup_key, delivery, step } = answer
    yield* sql`
      UPDATE journal SET answer_state = 2 WHERE handler = ${handler} AND dedup_key = ${dedup_key} AND step = ${step}`
    const result = isSameRequest === true ? answer.result ?? "null" : null
    // no attempt has this claim: nobody but an operator says what becomes of it
    yield* sql`INSERT INTO journal ${
      sql.insert(fromStep({ delivery: Number(delivery), claim: unsent }, intent, { begunAt: now, result }))
    }`
    return result === null ? { _tag: "Unclear" } as const : { _tag: "Done", result } as const
  })

  /** Inside a transaction: what was begun of the step, and why it is not begun now. */
  const refusal = Effect.fnUntraced(
    function*(fence: FencingToken, intent: Intent) {
      yield* requireClaim(fence)
      const [known] = yield* sql<
        { dedup_key: string; done: Integer; result: string | null; begun_at: Integer; answer_state: Integer }
      >`SELECT dedup_key, done, result, begun_at, answer_state FROM journal WHERE ${of(intent)} ORDER BY done DESC`
      const refused = (refused: BeginRefusal) => ({ known, refused })
      if (known !== undefined && Number(known.done) === 1) {
        if (Number(known.answer_state) === 1) {
          yield* sql`UPDATE journal SET answer_state = 2 WHERE ${of(intent)} AND answer_state = 1`
        }
        return refused({ _tag: "Done", result: known.result ?? "null" })
      }
      if (known !== undefined && !intent.allowRepeat) {
        return refused({ _tag: "Unknown", begunAt: Number(known.begun_at) })
      }
      const { handler, integration, sameRequestPrefix, dedupKeys, write } = intent
      if (known === undefined && sameRequestPrefix !== undefined) {
        const [other] = yield* sql<{ begun_at: Integer }>`
          SELECT begun_at FROM journal WHERE handler = ${handler} AND dedup_key IN ${sql.in(dedupKeys)} AND done = 0
            AND substr(step, 1, length(${sameRequestPrefix})) = ${sameRequestPrefix} AND NOT (${by(fence)})`
        if (other !== undefined) return refused({ _tag: "Unknown", begunAt: Number(other.begun_at) })
        const answered = yield* resolvedElsewhere(intent, sameRequestPrefix, yield* Clock.currentTimeMillis)
        if (answered !== null) return refused(answered)
      }
      if (write !== null) {
        const [stopped] = yield* sql`SELECT plugin FROM switched_off WHERE plugin = '' AND integration = ''`
        if (stopped !== undefined) return refused({ _tag: "Stopped" })
        const [row] = yield* sql<IntegrationRow>`SELECT id, state FROM integrations WHERE id = ${integration}`
        if (row !== undefined && (yield* toIntegration(row)).state !== "active") return refused({ _tag: "Removed" })
      }
      return { known, refused: null }
    }
  )

  const look: Deliveries["Service"]["checkBegin"] = (fence, intent) =>
    refusal(fence, intent).pipe(Effect.map(({ refused }) => refused), locks.deliveries, withRetry("look"))

  const begin: Deliveries["Service"]["begin"] = Effect.fnUntraced(
    function*(fence, intent): Effect.fn.Return<BeginResult, StoreError | SqlError> {
      const { known, refused } = yield* refusal(fence, intent)
      if (refused !== null) return refused
      const now = yield* Clock.currentTimeMillis
      const { write } = intent
      if (write !== null) {
        const hour = Math.floor(now / hourMillis)
        if (!(yield* spend({ ...intent, write }, hour))) {
          return { _tag: "BudgetExhausted", until: (hour + 1) * hourMillis }
        }
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
      return { _tag: "Begun" }
    },
    toStoreError("begin"),
    locks.deliveries,
    withRetry("begin")
  )

  const finish: Deliveries["Service"]["finish"] = Effect.fnUntraced(
    function*(fence, key, result, created = {}) {
      const finished = yield* sql<{ dedup_key: string; write_name: string | null }>`
        UPDATE journal SET done = 1, result = ${result} WHERE ${of(key)} AND done = 0 AND ${by(fence)}
        RETURNING dedup_key, write_name`
      for (const { dedup_key, write_name } of finished) {
        if (write_name !== null) yield* expectations.answered(writeIdOf(key, dedup_key), created)
      }
      if (finished.length > 0) return
      const begunAt = yield* Clock.currentTimeMillis
      yield* sql`INSERT INTO journal ${sql.insert(fromStep(fence, key, { begunAt, result }))}
        ON CONFLICT (handler, dedup_key, step) DO NOTHING`
    },
    locks.deliveries,
    withRetry("finish")
  )

  const withdraw: Deliveries["Service"]["withdraw"] = Effect.fnUntraced(
    function*(fence, key) {
      const undone = yield* sql<{ dedup_key: string; write_name: string | null }>`
        DELETE FROM journal WHERE ${of(key)} AND done = 0 AND ${by(fence)} RETURNING dedup_key, write_name`
      for (const { dedup_key, write_name } of undone) {
        if (write_name !== null) yield* expectations.withdraw(writeIdOf(key, dedup_key))
      }
    },
    locks.deliveries,
    withRetry("withdraw")
  )

  /** The text up to its first `mark`. */
  const cut = (mark: string, text: Fragment) =>
    sql.onDialectOrElse({
      pg: () => sql`split_part(${text}, ${mark}, 1)`,
      orElse: () => sql`substr(${text}, 1, instr(${text} || ${mark}, ${mark}) - 1)`
    })

  /** What occasions are of, without what a replay or a half adds: events `e<position>`, batches `b<first delivery>`. */
  const whole = cut("~", cut(".", sql.literal("dedup_key")))

  const prune: Deliveries["Service"]["prune"] = (before) =>
    sql`
      DELETE FROM journal WHERE keep_forever = 0 AND begun_at < ${before}
        AND (dedup_key LIKE 't%' OR begun_at < coalesce(
          (SELECT appended_at FROM events WHERE position = (SELECT pruned + 1 FROM log_counter)), ${before}))
        AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = journal.delivery)
        AND (handler, ${whole}) NOT IN (
          SELECT handler, 'e' || position FROM deliveries WHERE position IS NOT NULL
          UNION ALL SELECT handler, 'b' || ${cut(".", sql.literal("batch"))} FROM deliveries WHERE batch IS NOT NULL
          UNION ALL SELECT m.handler, 'b' || ${cut(".", sql.literal("m.batch"))} FROM batch_members m
            JOIN deliveries d ON d.handler = m.handler AND d.position = m.position
        ) RETURNING handler`.pipe(
      Effect.map((rows) => rows.length),
      Effect.tap(members.prune),
      Effect.provideService(AllowLongStatement, true),
      withRetry("prune")
    )

  return { check, result, checkBegin: look, begin, finish, withdraw, prune }
}
