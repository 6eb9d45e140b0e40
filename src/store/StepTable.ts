/**
 * The journal: what attempts began and what came of it; the hour's writes of each plugin.
 *
 * Invariants
 * 1. Nothing is begun for an owner or a claim that is not the newest   (X16)
 * 2. Of what was begun nobody but the attempt that began it last says what became of it
 *
 * Gotchas
 * - A step of a half of a batch may stand in the journal of the whole: it is looked for under every occasion.
 * - Who began a step may be settled long before the others that look for it: a replay, the other half of a batch.
 * - What operators say of steps without a result is in `AnswerTable`.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { attempt, MayBeLong, step } from "./Attempt.ts"
import * as BatchMembers from "./BatchMembers.ts"
import type { Begun, Deliveries, Fence, Intent, Refused, StepKey } from "./Deliveries.ts"
import type { ExpectationTable } from "./ExpectationTable.ts"
import * as Locks from "./Locks.ts"
import * as Ownership from "./Ownership.ts"
import { type Integer, type IntegrationRow, toIntegration } from "./Rows.ts"
import type { StoreError } from "./Store.ts"

const hourMillis = 3_600_000
/** Claim of what was never sent. */
export const unsent = 0

/** One write, sent once or again, among all there are. */
export const writeOf = ({ handler, step }: Pick<StepKey, "handler" | "step">, occasion: string): string =>
  `${handler}/${occasion}/${step}`

export const make = (
  sql: SqlClient,
  { fence }: Pick<ReturnType<typeof Ownership.make>, "fence">,
  expectations: Pick<ExpectationTable, "expect" | "answered" | "withdraw">
) => {
  const locks = Locks.make(sql)
  const members = BatchMembers.make(sql)
  const of = ({ handler, occasions, step }: StepKey) =>
    sql`handler = ${handler} AND step = ${step} AND occasion IN ${sql.in(occasions)}`
  const by = ({ claim, delivery }: Fence) => sql`delivery = ${delivery} AND claim = ${claim}`

  const held = Effect.fnUntraced(function*({ claim, delivery, owner }: Fence) {
    yield* fence(owner)
    const [row] = yield* sql`
      SELECT id FROM deliveries WHERE id = ${delivery} AND claims = ${claim} AND state = 'running'`
    if (row === undefined) return yield* Ownership.fenced({ scope: `delivery ${delivery}`, epoch: claim })
  }, step("check"))

  const check: Deliveries["Service"]["check"] = (fence) => held(fence).pipe(locks.deliveries, attempt("check"))

  const result: Deliveries["Service"]["result"] = (key) =>
    sql<{ result: string }>`SELECT result FROM journal WHERE ${of(key)} AND done = 1`.pipe(
      Effect.map(([row]) => row?.result ?? null),
      attempt("result")
    )

  const fromStep = (
    { claim, delivery }: Pick<Fence, "claim" | "delivery">,
    { handler, integration, lasting, occasions: [occasion], onUnknown, step, write }:
      & StepKey
      & Partial<Pick<Intent, "integration" | "onUnknown" | "write">>,
    details: { readonly begunAt: number; readonly result: string | null }
  ) => ({
    handler,
    occasion,
    step,
    lasting: lasting ? 1 : 0,
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
      const spent = yield* sql`INSERT INTO budgets ${sql.insert(row)} ON CONFLICT (plugin, integration) DO UPDATE SET
        writes = CASE WHEN budgets.hour = excluded.hour THEN budgets.writes + 1 ELSE 1 END, hour = excluded.hour
        WHERE budgets.hour <> excluded.hour OR budgets.writes < ${write.perHour} RETURNING writes`
      return spent.length > 0
    }
  )

  /**
   * Of a request in other words than one that an operator said happened, while no handler was given that answer: it is
   * given to this one, or kept back until an operator has said of this one too whether it happened.
   */
  const restated = Effect.fnUntraced(function*(intent: Intent, kin: string, now: number) {
    const { handler, occasions, restates } = intent
    const [answer] = yield* sql<{ occasion: string; step: string; result: string | null; delivery: Integer }>`
      SELECT occasion, step, result, delivery FROM journal
      WHERE handler = ${handler} AND occasion IN ${sql.in(occasions)} AND answered = 1
        AND substr(step, 1, length(${kin})) = ${kin} ORDER BY begun_at, step`
    if (answer === undefined) return null
    const { delivery, occasion, step } = answer
    yield* sql`
      UPDATE journal SET answered = 2 WHERE handler = ${handler} AND occasion = ${occasion} AND step = ${step}`
    const result = restates === true ? answer.result ?? "null" : null
    // no attempt has this claim: nobody but an operator says what becomes of it
    yield* sql`INSERT INTO journal ${
      sql.insert(fromStep({ delivery: Number(delivery), claim: unsent }, intent, { begunAt: now, result }))
    }`
    return result === null ? { _tag: "Unclear" } as const : { _tag: "Done", result } as const
  })

  /** Inside a transaction: what was begun of the step, and why it is not begun now. */
  const refusal = Effect.fnUntraced(
    function*(fence: Fence, intent: Intent) {
      yield* held(fence)
      const [known] = yield* sql<
        { occasion: string; done: Integer; result: string | null; begun_at: Integer; answered: Integer }
      >`SELECT occasion, done, result, begun_at, answered FROM journal WHERE ${of(intent)} ORDER BY done DESC`
      const refused = (refused: Refused) => ({ known, refused })
      if (known !== undefined && Number(known.done) === 1) {
        if (Number(known.answered) === 1) {
          yield* sql`UPDATE journal SET answered = 2 WHERE ${of(intent)} AND answered = 1`
        }
        return refused({ _tag: "Done", result: known.result ?? "null" })
      }
      if (known !== undefined && !intent.again) return refused({ _tag: "Unknown", begunAt: Number(known.begun_at) })
      const { handler, integration, kin, occasions, write } = intent
      if (known === undefined && kin !== undefined) {
        const [other] = yield* sql<{ begun_at: Integer }>`
          SELECT begun_at FROM journal WHERE handler = ${handler} AND occasion IN ${sql.in(occasions)} AND done = 0
            AND substr(step, 1, length(${kin})) = ${kin} AND NOT (${by(fence)})`
        if (other !== undefined) return refused({ _tag: "Unknown", begunAt: Number(other.begun_at) })
        const answered = yield* restated(intent, kin, yield* Clock.currentTimeMillis)
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

  const look: Deliveries["Service"]["look"] = (fence, intent) =>
    refusal(fence, intent).pipe(Effect.map(({ refused }) => refused), locks.deliveries, attempt("look"))

  const begin: Deliveries["Service"]["begin"] = Effect.fnUntraced(
    function*(fence, intent): Effect.fn.Return<Begun, StoreError | SqlError> {
      const { known, refused } = yield* refusal(fence, intent)
      if (refused !== null) return refused
      const now = yield* Clock.currentTimeMillis
      const { write } = intent
      if (write !== null) {
        const hour = Math.floor(now / hourMillis)
        if (!(yield* spend({ ...intent, write }, hour))) return { _tag: "Exhausted", until: (hour + 1) * hourMillis }
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
        const id = writeOf(intent, known?.occasion ?? intent.occasions[0])
        const { integration } = intent
        yield* expectations.expect(
          { write: id, name, integration, plugin, delivery: String(fence.delivery), depth },
          expected
        )
      }
      return { _tag: "Begun" }
    },
    step("begin"),
    locks.deliveries,
    attempt("begin")
  )

  const finish: Deliveries["Service"]["finish"] = Effect.fnUntraced(
    function*(fence, key, result, created = {}) {
      const finished = yield* sql<{ occasion: string; write_name: string | null }>`
        UPDATE journal SET done = 1, result = ${result} WHERE ${of(key)} AND done = 0 AND ${by(fence)}
        RETURNING occasion, write_name`
      for (const { occasion, write_name } of finished) {
        if (write_name !== null) yield* expectations.answered(writeOf(key, occasion), created)
      }
      if (finished.length > 0) return
      const begunAt = yield* Clock.currentTimeMillis
      yield* sql`INSERT INTO journal ${sql.insert(fromStep(fence, key, { begunAt, result }))}
        ON CONFLICT (handler, occasion, step) DO NOTHING`
    },
    locks.deliveries,
    attempt("finish")
  )

  const withdraw: Deliveries["Service"]["withdraw"] = Effect.fnUntraced(
    function*(fence, key) {
      const undone = yield* sql<{ occasion: string; write_name: string | null }>`
        DELETE FROM journal WHERE ${of(key)} AND done = 0 AND ${by(fence)} RETURNING occasion, write_name`
      for (const { occasion, write_name } of undone) {
        if (write_name !== null) yield* expectations.withdraw(writeOf(key, occasion))
      }
    },
    locks.deliveries,
    attempt("withdraw")
  )

  /** The text up to its first `mark`. */
  const cut = (mark: string, text: Fragment) =>
    sql.onDialectOrElse({
      pg: () => sql`split_part(${text}, ${mark}, 1)`,
      orElse: () => sql`substr(${text}, 1, instr(${text} || ${mark}, ${mark}) - 1)`
    })

  /** What occasions are of, without what a replay or a half adds: events `e<position>`, batches `b<first delivery>`. */
  const whole = cut("~", cut(".", sql.literal("occasion")))

  const prune: Deliveries["Service"]["prune"] = (before) =>
    sql`
      DELETE FROM journal WHERE lasting = 0 AND begun_at < ${before}
        AND (occasion LIKE 't%' OR begun_at < coalesce(
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
      Effect.provideService(MayBeLong, true),
      attempt("prune")
    )

  return { check, result, look, begin, finish, withdraw, prune }
}
