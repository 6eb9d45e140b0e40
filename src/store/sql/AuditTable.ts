/**
 * The audit log: every action of an operator, in the transaction of its effect (I2), with the caller of the request; and who read
 * records in which hour.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { type AuditedRead, type AuditEntry, CurrentActor, type OperatorAction } from "../Operators.ts"
import { codec, type Row } from "./Rows.ts"

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
    /** Adds an operator's action to the audit log. In an open transaction it is a step of that. */
    recordAction: (action: OperatorAction) =>
      Effect.flatMap(
        CurrentActor,
        ({ actor, address }) => sql`INSERT INTO audit ${sql.insert({ ...action, actor, address })}`
      ),
    /** Operators' actions, the newest first; `before`: only those with a smaller id. */
    auditLog: (limit: number, before?: number) =>
      sql<AuditEntry>`
        SELECT key AS id, at, command, target, detail, actor, address FROM audit
        WHERE ${olderThan(before)} ORDER BY key DESC LIMIT ${limit}`,
    /** The newest action of one of these commands on this target; null if there is none. */
    lastAction: (commands: ReadonlyArray<string>, target: string) =>
      sql<AuditEntry>`
        SELECT key AS id, at, command, target, detail, actor, address FROM audit
        WHERE target = ${target} AND command IN ${sql.in(commands)} ORDER BY key DESC LIMIT 1`.pipe(
        Effect.map(([entry]) => entry ?? null)
      ),
    /** Adds a read to the audit log, unless it has one of the same hour, route, target, actor and address. Any process may call this. */
    recordRead: (read: AuditedRead) =>
      sql`
        INSERT INTO audit_reads ${sql.insert(reads.toRow(read))}
        ON CONFLICT (period, route, target, actor, address) DO NOTHING`,
    /** Reads of records, the newest first; `before`: only those with a smaller id. */
    auditedReads: (limit: number, before?: number) =>
      Effect.map(
        sql<Row>`
          SELECT ${listedReads.columns()} FROM audit_reads
          WHERE ${olderThan(before)} ORDER BY key DESC LIMIT ${limit}`,
        Arr.map(listedReads.fromRow)
      ),
    /** Deletes reads whose hour started before `before` (our clock, in ms). */
    pruneReads: (before: number) => sql`DELETE FROM audit_reads WHERE period < ${before}`
  }
}
