/** The audit log: every action of an operator, in the transaction of its effect (I2), with the caller of the request. */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { CurrentActor } from "../Actor.ts"
import type { AuditEntry, OperatorAction } from "../State.ts"

export const make = (sql: SqlClient) => ({
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
        WHERE ${before === undefined ? sql.literal("1 = 1") : sql`key < ${before}`}
        ORDER BY key DESC LIMIT ${limit}`,
      (rows) => rows.map((row) => ({ ...row, id: Number(row.id), at: Number(row.at) }))
    )
})
