/**
 * The row of `log_counter`: the newest position, the position up to which the log is pruned, and the chains at both.
 *
 * Gotchas
 * - A transaction that appends or prunes locks the row first, and it stays locked until the commit.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { genesis } from "../../domain/ChangeEvent.ts"
import * as Locks from "./Locks.ts"

export interface Counter {
  readonly newest: number
  readonly chain: string
  readonly pruned: number
  readonly prunedChain: string
}
export const emptyLog: Counter = { newest: 0, chain: genesis, pruned: 0, prunedChain: genesis }

/** The part of the log that can be read. */
export const rangeOf = ({ newest, pruned }: Counter) => ({ oldest: newest === 0 ? 0 : pruned + 1, newest })

export const make = (sql: SqlClient) => {
  const locks = Locks.make(sql)
  const columns = sql.literal(`c.position AS newest, c.chain, c.pruned, c.pruned_chain AS "prunedChain"`)
  const counterWith = (lock: Fragment) =>
    Effect.map(
      sql<Counter>`SELECT ${columns} FROM log_counter c ${lock}`,
      ([row]) => row ?? emptyLog
    )
  return {
    /** The columns of `Counter`, of the table `c`. */
    columns,
    counter: counterWith(sql.literal("")),
    /** The counter as of the last commit; no other transaction appends until this one commits. */
    lockedCounter: counterWith(locks.exclusive)
  }
}
