/**
 * The switches with which operators turn off plugins, or all writes of plugins.
 *
 * Invariants
 * 1. The audit entry of a change is committed together with the change   (I2)
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Deliveries, Switch } from "../../Deliveries.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import * as Locks from "../Locks.ts"
import { withRetry } from "../SqlRetry.ts"
import type { DeadLetterTable } from "./DeadLetterTable.ts"

/** Means "all" in the key of a switch. */
const all = ""
const fromSwitch = (which: Switch) =>
  which._tag === "Writes"
    ? { plugin: all, integration: all }
    : { plugin: which.plugin, integration: which.integration ?? all }

export const make = (sql: SqlClient, { recordAction }: Pick<DeadLetterTable, "recordAction">) => {
  const locks = Locks.make(sql)

  const switchedOff = sql<{ plugin: string; integration: string }>`
    SELECT plugin, integration FROM switched_off ORDER BY plugin, integration`.pipe(
    Effect.map(Arr.map(({ integration, plugin }): Switch =>
      plugin === all
        ? { _tag: "Writes" }
        : { _tag: "Plugin", plugin, integration: integration === all ? null : integration }
    )),
    withRetry("switchedOff")
  )

  const setSwitch: Deliveries["Service"]["setSwitch"] = (which, on, action) => {
    const key = fromSwitch(which)
    const resumed = on && which._tag === "Writes"
      ? Effect.flatMap(
        DatabaseTime.read(sql),
        ({ now }) => sql`UPDATE deliveries SET due_at = ${now}, stopped = 0 WHERE stopped = 1`
      )
      : Effect.void
    const change = on
      ? sql`DELETE FROM switched_off WHERE plugin = ${key.plugin} AND integration = ${key.integration}`
      : sql`INSERT INTO switched_off ${sql.insert(key)} ON CONFLICT (plugin, integration) DO NOTHING`
    return change.pipe(
      Effect.andThen(resumed),
      Effect.andThen(recordAction(action)),
      Effect.asVoid,
      locks.deliveries,
      withRetry("setSwitch")
    )
  }

  return { switchedOff, setSwitch }
}
