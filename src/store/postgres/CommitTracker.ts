/**
 * Tracks this process's commits, so that it notices when an older copy of its database answers instead: a replica that was
 * promoted without the newest commits, or a disk that was restored to an earlier state.
 *
 * Invariants
 * 1. No statement runs in a database that lacks a commit of this process. So state in memory, such as a run in progress, is never
 *    continued on a copy that lacks part of it   (I1, I2, X14)
 * 2. A copy that lacks no commit is used like the original database
 *
 * Details
 * Each commit increments the counter of a *slot*, a row of this process, in its own transaction. A session is used only after its
 * database has been checked to have the counters of all commits that this process knows. Transactions that commit at the
 * same time use different slots, so that none waits for another.
 *
 * Gotchas
 * - The old server and the promoted one may both answer for a while. Whenever the server in use changes, every session is verified
 *   again.
 * - Statements outside transactions are not counted.
 * - Each start of a process deletes the slots that were not used for a month. A process may commit nothing for that long, if all of its
 *   shards have no integration: so it renews its slots once a day.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import { issue } from "../sql/Connection.ts"
import { OlderCopy, StoreError } from "../StoreError.ts"
import { sqlErrorOf } from "../StoreFault.ts"

/** The statements that differ between databases. */
export interface Dialect {
  /** Returns a row once the table of slots exists. No commit is counted before that, while the store is created or migrated. */
  readonly ready: string
  /** Whether the transaction has written anything. */
  readonly wrote: string
  /** The transaction's id, as text. */
  readonly transaction: string
  /** The id of the connection's transaction if it is known before the commit; the transaction then has written something. */
  readonly transactionOf: (connection: Connection) => string | null
  /** Identifies the running server, as text; it changes with every start. */
  readonly server: string
  /** Statement that deletes the slots of processes that have not renewed them for a long time. */
  readonly forget: string
  /** Statement that renews the slots of a process, except those of open commits, which do so themselves. */
  readonly renew: (process: string) => string
}

const renewInterval = Duration.toMillis("1 day")

const olderCopyError = (missing: number): SqlError =>
  sqlErrorOf(new StoreError({ reason: new OlderCopy({ missing }) }), "an older copy answers")

/** The counter that a commit has written, and its transaction. */
export interface CommitNote {
  readonly process: string
  readonly slot: number
  readonly counter: number
  readonly transaction: string
}

/** The server that sessions were verified against. Every change of server creates a new object. */
interface Epoch {
  readonly server: string
}

export const make = (dialect: Dialect) => {
  const process = randomUUID()
  /** The counter of the last known commit, by slot. */
  const known = new Map<number, number>()
  const free: Array<number> = []
  /** Slots whose last commit failed: a commit whose outcome was not found may have raised the counter. */
  const uncertain = new Set<number>()
  let slots = 0
  let isReady = false
  let renewedAt: number | null = null
  let epoch: Epoch = { server: "" }
  const verified = new WeakMap<object, Epoch>()
  const lent = new WeakMap<Connection, Epoch>()

  const prepare = (connection: Connection) =>
    Effect.gen(function*() {
      const rows = yield* connection.execute(dialect.ready, [], undefined)
      if (rows.length === 0 || isReady) return
      yield* connection.execute(dialect.forget, [], undefined)
      isReady = true
    })

  const compare = (session: object, connection: Connection) =>
    Effect.gen(function*() {
      const expected = [...known]
      const [row] = yield* connection.execute(`SELECT ${dialect.server} AS server`, [], undefined)
      const rows = yield* connection.execute(
        `SELECT slot, counter FROM commit_counters WHERE process = '${process}'`,
        [],
        undefined
      )
      const found = new Map<number, number>(rows.map(({ counter, slot }) => [Number(slot), Number(counter)]))
      const missing = expected.reduce((sum, [slot, counter]) => sum + Math.max(0, counter - (found.get(slot) ?? 0)), 0)
      if (missing > 0) return yield* Effect.fail(olderCopyError(missing))
      if (row?.server !== epoch.server) epoch = { server: String(row?.server) }
      verified.set(session, epoch)
    })

  /** A failure is ignored: the next statement on the connection shows it, and there are many days left. */
  const renew = (connection: Connection) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      renewedAt ??= now
      if (known.size === 0 || Math.abs(now - renewedAt) < renewInterval) return Effect.void
      renewedAt = now
      return Effect.ignore(connection.execute(dialect.renew(process), [], undefined))
    })

  return {
    /**
     * Call before using `connection`, which belongs to `session`: fails with `OlderCopy` if its database lacks a commit of this
     * process. Queries the database only if the session is new, or if the server in use has changed since, and once a day.
     */
    verify: (session: object, connection: Connection): Effect.Effect<void, SqlError> =>
      Effect.gen(function*() {
        if (!isReady) yield* prepare(connection)
        if (isReady && verified.get(session) !== epoch) yield* compare(session, connection)
        yield* renew(connection)
        lent.set(connection, verified.get(session) ?? epoch)
      }),

    /**
     * Commits the open transaction of `connection` by calling `commit` with the note that proves it; null if the transaction wrote
     * nothing.
     */
    committing: (
      connection: Connection,
      commit: (note: CommitNote | null) => Effect.Effect<void, SqlError>
    ): Effect.Effect<void, SqlError> =>
      Effect.suspend(() => {
        if (!isReady) return commit(null)
        const slot = free.pop() ?? slots++
        const count = connection.execute(
          `INSERT INTO commit_counters (process, slot, counter, updated_on)
          SELECT '${process}', ${slot}, 1, CURRENT_DATE WHERE ${dialect.wrote}
          ON CONFLICT (process, slot) DO UPDATE SET counter = commit_counters.counter + 1, updated_on = excluded.updated_on
          RETURNING counter, ${dialect.transaction} AS name`,
          [],
          undefined
        )
        const transaction = uncertain.has(slot) ? null : dialect.transactionOf(connection)
        const counted = Effect.gen(function*() {
          // if the transaction is known, so is the note: the counter is sent together with the commit
          const rows = yield* transaction === null ? Effect.map(count, (found) => () => found) : issue(count)
          const row = () => rows()?.[0]
          const [name, counter] = transaction === null
            ? [row()?.["name"], row()?.["counter"]]
            : [transaction, (known.get(slot) ?? 0) + 1]
          if (counter === undefined) return yield* commit(null)
          yield* commit({ process, slot, counter: Number(counter), transaction: String(name) })
          known.set(slot, Number(row()?.["counter"] ?? counter))
          uncertain.delete(slot)
          // this session uses another server than the last verified one, so all sessions are verified again
          if (lent.get(connection) !== epoch) epoch = { server: "" }
        })
        return counted.pipe(
          Effect.onExit((exit) =>
            Effect.sync(() => {
              // the server may still lock the row of a failed commit: its slot is reused last, and never after an interruption
              if (Exit.isSuccess(exit)) return void free.push(slot)
              uncertain.add(slot)
              if (!Exit.hasInterrupts(exit)) free.unshift(slot)
            })
          )
        )
      })
  }
}

export type CommitTracker = ReturnType<typeof make>
