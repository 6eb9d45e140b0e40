/**
 * The audit log: every action of an operator, in the transaction of its effect (I2), with the caller of the request; and the requests of
 * all callers, with totals per hour.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { CurrentActor } from "../Actor.ts"
import type { AuditEntry, OperatorAction, ReadSummary } from "../AuditLog.ts"
import { codec, type Row } from "./Columns.ts"
import { inBatches } from "./Rows.ts"
import { insertion } from "./RowValues.ts"

const readColumns = {
  period: "period",
  route: "route",
  target: "target",
  actor: "actor",
  address: "address",
  firstAt: "first_at",
  lastAt: "last_at",
  requests: "requests"
} as const
const summaries = codec<ReadSummary>(readColumns)
const listedSummaries = codec<ReadSummary & { readonly id: number }>({ ...readColumns, id: "key" })

export const make = (sql: SqlClient) => {
  const olderThan = (before: number | undefined) => before === undefined ? sql.literal("1 = 1") : sql`key < ${before}`

  return {
    /** A step of an open transaction. */
    record: (action: OperatorAction) =>
      Effect.flatMap(
        CurrentActor,
        ({ actor, address }) => sql`INSERT INTO audit ${sql.insert({ ...action, actor, address })}`
      ),
    /** Newest first; `before`: only entries with a smaller id. */
    list: (limit: number, before?: number) =>
      Effect.map(
        sql<AuditEntry>`
          SELECT key AS id, at, command, target, detail, actor, address FROM audit
          WHERE ${olderThan(before)} ORDER BY key DESC LIMIT ${limit}`,
        (rows) => rows.map((row) => ({ ...row, id: Number(row.id), at: Number(row.at) }))
      ),
    /** In one transaction, so that no request is counted twice. */
    recordReads: (reads: ReadonlyArray<ReadSummary>) =>
      inBatches(reads, (some) =>
        sql`
          INSERT INTO audit_reads ${insertion(sql, Arr.map(some, summaries.toRow))}
          ON CONFLICT (period, route, target, actor, address) DO UPDATE SET
            last_at = CASE WHEN excluded.last_at > audit_reads.last_at THEN excluded.last_at ELSE audit_reads.last_at END,
            requests = audit_reads.requests + excluded.requests`).pipe(sql.withTransaction),
    /** Newest first; `before`: only entries with a smaller id. */
    reads: (limit: number, before?: number) =>
      Effect.map(
        sql<Row>`
          SELECT ${listedSummaries.columns()} FROM audit_reads
          WHERE ${olderThan(before)} ORDER BY key DESC LIMIT ${limit}`,
        Arr.map(listedSummaries.fromRow)
      ),
    pruneReads: (before: number) => sql`DELETE FROM audit_reads WHERE period < ${before}`
  }
}
