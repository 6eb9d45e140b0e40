/** The table of integrations: their states, and the search for those that are not read. */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { OperatorAction } from "../Operators.ts"
import type { IntegrationState, Owner } from "../State.ts"
import type { StoreError } from "../StoreError.ts"
import * as AuditTable from "./AuditTable.ts"
import type { Fencing } from "./Fencing.ts"
import { activeAccount, parseState } from "./Rows.ts"
import type { Signals } from "./Signals.ts"

export interface IntegrationRow {
  readonly id: string
  readonly state: string
}

export const toIntegration = ({ id, state }: IntegrationRow): Effect.Effect<IntegrationState, StoreError> =>
  parseState<IntegrationState>(
    `integration ${id}`,
    state,
    (value) => value.id === id && typeof value.generation === "number" && typeof value.state === "string"
  )

export const make = (
  sql: SqlClient,
  { fence }: Fencing,
  signals: Signals["Service"]
) => {
  const account = activeAccount(sql)
  /** The accounts of active integrations. Jumps from one to the next in the index, because there are few. */
  const accountsInUse = sql<{ account: string }>`
    WITH RECURSIVE used (account) AS (
      SELECT '' UNION ALL
      SELECT (SELECT min(${account}) FROM integrations WHERE ${account} > used.account) FROM used
      WHERE used.account IS NOT NULL
    ) SELECT account FROM used WHERE account > ''`

  return {
    /** All integrations in id order, including removed and erased ones. */
    integrations: Effect.flatMap(
      sql<IntegrationRow>`SELECT id, state FROM integrations ORDER BY id`,
      Effect.forEach(toIntegration)
    ),
    /** The integration with this id; null if there is none. */
    integration: (id: string) =>
      Effect.flatMap(
        sql<IntegrationRow>`SELECT id, state FROM integrations WHERE id = ${id}`,
        ([row]) => row === undefined ? Effect.succeed(null) : toIntegration(row)
      ),
    /** The integrations that are not active, and the active ones in other accounts than these. All accounts if absent. */
    unavailableIntegrations: Effect.fnUntraced(function*(accounts?: ReadonlySet<string>) {
      // two statements, because the databases would read all integrations to join them with the accounts
      const used = accounts === undefined ? [] : yield* accountsInUse
      const others = used.flatMap(({ account }) => accounts?.has(account) === true ? [] : [account])
      const rows = yield* sql<IntegrationRow>`
        SELECT id, state FROM integrations WHERE ${account} IN ${sql.in(["", ...others])} ORDER BY id`
      return yield* Effect.forEach(rows, toIntegration)
    }),
    /** Saves an integration, together with the operator's action if there was one. */
    saveIntegration: Effect.fnUntraced(
      function*(owner: Owner, integration: IntegrationState, action: OperatorAction | null) {
        yield* fence(owner)
        yield* sql`
        INSERT INTO integrations ${sql.insert({ id: integration.id, state: JSON.stringify(integration) })}
        ON CONFLICT (id) DO UPDATE SET state = excluded.state`
        if (action !== null) yield* AuditTable.make(sql).recordAction(action)
        yield* signals.raise("integration")
      },
      sql.withTransaction
    )
  }
}
