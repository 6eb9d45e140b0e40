/**
 * What this process knows to be committed, so that it notices when an older copy of its database answers in its place: a
 * replica that was promoted without the newest commits, or a disk that was set back. Hides how that is written down.
 *
 * Invariants
 * 1. No statement runs in a database that lacks a commit of this process: what the process remembers, such as a reading
 *    under way, is never continued over a copy that knows less   (I1, I2, X14)
 * 2. A copy that lacks nothing is used like the database that it was made from
 *
 * Details
 * A commit raises the number of a *slot*, a row of this process, in its own transaction. A session is used once its database
 * is seen to hold the number of every commit that this process was told of. Transactions that commit at the same time have
 * a slot each, so that none waits for another.
 *
 * Gotchas
 * - Two servers may answer for a while, the old one and the promoted one. Whenever another one is used than was used last,
 *   every session is verified again.
 * - Statements outside transactions are not noted.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Connection } from "effect/sql/SqlConnection"
import { SqlError, UnknownError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import { OlderCopy, StoreError } from "../Store.ts"

/** SQL of the database at hand. */
export interface Dialect {
  /** A row once the table of slots is there: nothing is noted before, while a store is made or migrated. */
  readonly ready: string
  /** Whether the transaction has written anything. */
  readonly wrote: string
  /** The transaction's name, text. */
  readonly transaction: string
  /** The running server, text: another one after each start. */
  readonly server: string
  /** Deletes the slots of processes that committed nothing for long. */
  readonly forget: string
}

const olderCopyError = (missing: number): SqlError =>
  new SqlError({
    reason: new UnknownError({
      cause: new StoreError({ reason: new OlderCopy({ missing }) }),
      message: "an older copy answers"
    })
  })

/** What a commit has noted. */
export interface CommitNote {
  readonly process: string
  readonly slot: number
  readonly counter: number
  readonly transaction: string
}

/** What sessions were verified for: an object of its own for each time that another server was used. */
interface Epoch {
  readonly server: string
}

export const make = (dialect: Dialect) => {
  const process = randomUUID()
  /** Number of the last commit known of each slot. */
  const known = new Map<number, number>()
  const free: Array<number> = []
  let slots = 0
  let isReady = false
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
      const missing = expected.reduce((sum, [slot, serial]) => sum + Math.max(0, serial - (found.get(slot) ?? 0)), 0)
      if (missing > 0) return yield* Effect.fail(olderCopyError(missing))
      if (row?.server !== epoch.server) epoch = { server: String(row?.server) }
      verified.set(session, epoch)
    })

  return {
    /**
     * Before `connection`, of this session, is used: fails with `Replaced` where its database lacks a commit of this process.
     * Asks only where the session is new, or another server was used since.
     */
    verify: (session: object, connection: Connection): Effect.Effect<void, SqlError> =>
      Effect.gen(function*() {
        if (!isReady) yield* prepare(connection)
        if (isReady && verified.get(session) !== epoch) yield* compare(session, connection)
        lent.set(connection, verified.get(session) ?? epoch)
      }),

    /** Commits what `connection` has open by `commit`, which is given what proves it; null: nothing was written. */
    committing: (
      connection: Connection,
      commit: (note: CommitNote | null) => Effect.Effect<void, SqlError>
    ): Effect.Effect<void, SqlError> =>
      Effect.suspend(() => {
        if (!isReady) return commit(null)
        const slot = free.pop() ?? slots++
        return connection.execute(
          `INSERT INTO commit_counters (process, slot, counter, updated_on)
          SELECT '${process}', ${slot}, 1, CURRENT_DATE WHERE ${dialect.wrote}
          ON CONFLICT (process, slot) DO UPDATE SET counter = commit_counters.counter + 1, updated_on = excluded.updated_on
          RETURNING counter, ${dialect.transaction} AS name`,
          [],
          undefined
        ).pipe(
          Effect.flatMap(([row]) => {
            if (row === undefined) return commit(null)
            const note: CommitNote = { process, slot, counter: Number(row.counter), transaction: String(row.name) }
            return Effect.tap(commit(note), () =>
              Effect.sync(() => {
                known.set(slot, note.counter)
                // committed where it was not looked last: the others may be elsewhere
                if (lent.get(connection) !== epoch) epoch = { server: "" }
              }))
          }),
          Effect.onExit((exit) =>
            Effect.sync(() => {
              // the server may still hold the row of one that failed: it is used last, that of an interrupted one never
              if (Exit.isSuccess(exit)) free.push(slot)
              else if (!Exit.hasInterrupts(exit)) free.unshift(slot)
            })
          )
        )
      })
  }
}

export type CommitTracker = ReturnType<typeof make>
