/**
 * Journal steps with an unknown outcome, and the outcomes that operators report for them.
 *
 * Invariants
 * 1. A report applies only to the state of the step that the operator saw. It is refused if the step was sent again, resolved or
 *    finished since, or if its attempt is running
 * 2. The reported outcome, the change of the write's expectations, the redrive of the dead letter and the audit entry are committed in one
 *    transaction   (I2)
 *
 * Gotchas
 * - A step that runs once per record may have been started by a delivery that has been settled or discarded since.
 * - If the API's response arrives after the operator's report, the reported result stays: `finish` does not overwrite a result.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { hash } from "node:crypto"
import type { WriteName } from "../../../api/Writes.ts"
import type { ResolveResult, UnresolvedStep } from "../../DeadLetters.ts"
import type { Deliveries } from "../../Deliveries.ts"
import type { ContentCipher } from "../ContentCipher.ts"
import { holdKey, stepPlace } from "../EncryptionTable.ts"
import * as Locks from "../Locks.ts"
import type { Integer } from "../Rows.ts"
import { withRetry } from "../SqlRetry.ts"
import type { ExpectationTable } from "../stream/ExpectationTable.ts"
import type { DeadLetterTable } from "./DeadLetterTable.ts"
import { unsent, writeIdOf } from "./JournalTable.ts"

interface UnresolvedRow {
  readonly handler: Integer
  readonly dedup_key: string
  readonly step: string
  readonly write_name: WriteName | null
  readonly integration: string | null
  readonly params: string | null
  readonly delivery: Integer
  readonly claim: Integer
  readonly begun_at: Integer
  readonly done: Integer
  readonly result: string | null
  readonly shown_by: string | null
  readonly running: Integer
}

const nameOf = ({ begun_at, claim, dedup_key, delivery, handler, result, step }: UnresolvedRow): string =>
  hash("sha256", JSON.stringify([handler, dedup_key, step, delivery, claim, begun_at].map(String).concat(result ?? "")))
    .slice(0, 12)

const stateOf = ({ claim, done, running }: UnresolvedRow): UnresolvedStep["state"] => {
  if (Number(done) === 1) return "answered"
  if (Number(running) > 0) return "running"
  return Number(claim) === unsent ? "unsent" : "unknown"
}

const toUnresolvedStep = (row: UnresolvedRow): UnresolvedStep => ({
  name: nameOf(row),
  step: row.step,
  write: row.write_name,
  target: row.integration === null || row.params === null
    ? null
    : { integration: row.integration, params: JSON.parse(row.params) },
  begunAt: Number(row.begun_at),
  delivery: Number(row.delivery),
  state: stateOf(row),
  shownBy: row.shown_by === null ? null : JSON.parse(row.shown_by)
})

export const make = (
  sql: SqlClient,
  cipher: ContentCipher,
  { recordAction, redriveOne }: Pick<DeadLetterTable, "recordAction" | "redriveOne">,
  expectations: Pick<ExpectationTable, "tookEffect" | "withdraw">
) => {
  const locks = Locks.make(sql)

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
          result: open(stepPlace(Number(row.handler), row.step), row.result)
        }))
      )
    )

  const unresolvedSteps: Deliveries["Service"]["unresolvedSteps"] = (delivery, dedupKeys) =>
    unresolved(delivery, dedupKeys).pipe(Effect.map(Arr.map(toUnresolvedStep)), withRetry("unresolvedSteps"))

  const resolve: Deliveries["Service"]["resolve"] = (delivery, dedupKeys, name, resolution, dueAt, action) =>
    Effect.gen(function*() {
      const [dead] = yield* sql`SELECT id FROM deliveries WHERE id = ${delivery} AND state = 'dead'`
      if (dead === undefined) return { _tag: "NotDeadLetter" } as const
      const rows = yield* unresolved(delivery, dedupKeys)
      const row = rows.find((one) => nameOf(one) === name)
      if (row === undefined) return { _tag: "Outdated" } as const
      if (stateOf(row) === "running") return { _tag: "Running" } as const
      const { dedup_key, handler, step } = row
      const isStep = sql`handler = ${handler} AND dedup_key = ${dedup_key} AND step = ${step}`
      const write = writeIdOf({ handler: Number(handler), step }, dedup_key)
      if (resolution._tag === "Happened") {
        yield* holdKey(sql, cipher)
        const sealed = cipher.seal(stepPlace(Number(handler), step), resolution.result)
        yield* sql`UPDATE journal SET done = 1, result = ${sealed}, answer_state = 1 WHERE ${isStep}`
        yield* expectations.tookEffect(write, resolution.created)
      } else {
        yield* sql`DELETE FROM journal WHERE ${isStep}`
        yield* expectations.withdraw(write)
      }
      const left = rows.filter((one) => one !== row && Number(one.done) === 0).length
      if (left === 0) yield* redriveOne(delivery, dueAt)
      yield* recordAction(action)
      return { _tag: "Resolved", left } as const
    }).pipe(locks.deliveries, withRetry("resolve"), Effect.map((result): ResolveResult => result))

  return { unresolvedSteps, resolve }
}
