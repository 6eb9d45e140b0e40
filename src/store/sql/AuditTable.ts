/**
 * The audit log: every action of an operator, in the transaction of its effect (I2), with the caller of the request; and who read
 * records in which hour.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { CurrentActor } from "../Actor.ts"
import type { AuditedRead, AuditEntry, OperatorAction } from "../AuditLog.ts"
import { codec, type Row } from "./Columns.ts"

const readColumns = {
  period: "period",
  route: "route",
  target: "target",
  actor: "actor",
  address: "address",
  firstAt: "first_at"
} as const
const reads = codec<AuditedRead>(readColumns)
const listedReads = codec<AuditedRead & { readonly id: number }>({ ...readColumns, id: "key" })

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
    recordRead: (read: AuditedRead) =>
      sql`
        INSERT INTO audit_reads ${sql.insert(reads.toRow(read))}
        ON CONFLICT (period, route, target, actor, address) DO NOTHING`,
    /** Newest first; `before`: only entries with a smaller id. */
    reads: (limit: number, before?: number) =>
      Effect.map(
        sql<Row>`
          SELECT ${listedReads.columns()} FROM audit_reads
          WHERE ${olderThan(before)} ORDER BY key DESC LIMIT ${limit}`,
        Arr.map(listedReads.fromRow)
      ),
    pruneReads: (before: number) => sql`DELETE FROM audit_reads WHERE period < ${before}`
  }
}
