/**
 * Ownership of scopes: only the process that claimed a scope last may write   (I10).
 *
 * Gotchas
 * - A newer version of Rollcall that cannot run beside this one fences it too. The error is then `Incompatible`, because trying again does
 *   not help.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Order from "effect/Order"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Owner } from "../State.ts"
import { Fenced, StoreError } from "../StoreError.ts"
import { issue } from "./Connection.ts"
import * as Locks from "./Locks.ts"
import { checkVersion } from "./Migrations.ts"
import { toStoreError, withRetry } from "./SqlRetry.ts"

export const fencedError = ({ epoch, scope }: Owner): StoreError =>
  new StoreError({ reason: new Fenced({ scope, epoch }) })

/**
 * `process`: the id of this process. `generation`: the latest one of the log that this process knows. A process that opened the store
 * before an adoption can take over nothing, because it would continue the old log   (X11, X14). `first`: runs first in the transaction.
 */
export const makeTakeover = (
  sql: SqlClient,
  process: string,
  generation: () => number,
  first: Effect.Effect<void, StoreError> = Effect.void
) => {
  const locks = Locks.make(sql)
  const take = (scopes: Arr.NonEmptyReadonlyArray<string>) =>
    sql<{ readonly scope: string; readonly epoch: number }>`INSERT INTO ownership ${
      sql.insert(Arr.map(scopes, (scope) => ({ scope, epoch: 1, process })))
    }
      ON CONFLICT (scope) DO UPDATE SET epoch = ownership.epoch + 1, process = excluded.process
      RETURNING scope, epoch`

  const takeOwnerships = (scopes: Arr.NonEmptyReadonlyArray<string>) => {
    // all processes use the same order, so that two of them do not wait for each other
    const ordered = Arr.sort(scopes, Order.String)
    return first.pipe(
      Effect.andThen(locks.takeover(ordered)),
      Effect.andThen(take(ordered)),
      Effect.tap(
        Effect.fnUntraced(function*() {
          const [meta] = yield* sql<{ generation: number }>`SELECT generation FROM meta`
          yield* checkVersion(sql)
          if (Number(meta?.generation) !== generation()) yield* fencedError({ scope: scopes[0], epoch: 0 })
        })
      ),
      Effect.map((rows) =>
        new Map(rows.map(({ epoch, scope }): [string, Owner] => [scope, { scope, epoch: Number(epoch) }]))
      ),
      // In a transaction for two reasons.
      // 1. A single statement whose connection failed may reach the database after its own retry. It would raise the epoch again, and so fence
      //    the owner that the retry returned.
      // 2. `CommitTracker` counts only commits of transactions. If a failover loses this commit, the count shows that an older copy of the
      //    database answers. Without the count, the lower epoch of that copy would differ from the owner's, and this process would
      //    believe that another one had taken over.
      sql.withTransaction,
      withRetry("takeOwnership")
    )
  }

  const takeOwnership = (scope: string) => Effect.map(takeOwnerships([scope]), (owners) => owners.get(scope)!)

  return { takeOwnership, takeOwnerships }
}

export const make = (sql: SqlClient) => {
  const locks = Locks.make(sql)

  const ownership = ({ scope }: Owner) =>
    sql<{ epoch: number }>`SELECT epoch FROM ownership WHERE scope = ${scope} ${locks.owned(scope)}`
  const compare = Effect.fnUntraced(function*(owner: Owner, [row]: ReadonlyArray<{ readonly epoch: number }>) {
    if (Number(row?.epoch) !== owner.epoch) return yield* fencedError(owner)
  })
  const check = (owner: Owner, rows: ReadonlyArray<{ readonly epoch: number }>) =>
    Effect.tapError(compare(owner, rows), () => checkVersion(sql))

  /** Call first in a transaction: fails if `owner` is no longer the newest, and keeps it the newest until the commit. */
  const fence = (owner: Owner) =>
    ownership(owner).pipe(Effect.flatMap((rows) => check(owner, rows)), toStoreError("fence"))

  /**
   * Like `fence`, in one round trip with `reads`, which must not write: they run although the owner may be fenced. After the error of a read
   * PostgreSQL answers nothing more in the transaction. So the transaction needs `orIncompatible`, which checks the version once it has ended.
   */
  const fenceWith = <A, E>(owner: Owner, reads: Effect.Effect<A, E>): Effect.Effect<A, E | StoreError> =>
    Effect.gen(function*() {
      const found = yield* issue(toStoreError("fence")(ownership(owner)))
      const read = yield* Effect.exit(reads)
      const rows = found()
      if (rows !== null) yield* compare(owner, rows)
      return yield* read
    })

  const orIncompatible = <A, E>(transaction: Effect.Effect<A, E>): Effect.Effect<A, E | StoreError> =>
    Effect.tapError(
      transaction,
      (error) => error instanceof StoreError && error.reason._tag === "Fenced" ? checkVersion(sql) : Effect.void
    )

  /**
   * The owners among `owners` that are no longer the newest. This locks nothing: the others may lose their scopes before the caller's
   * transaction commits. So the caller must have a lock that a new owner takes before it acts.
   */
  const replaced = Effect.fnUntraced(function*(owners: ReadonlyArray<Owner>) {
    if (owners.length === 0) return []
    const owned = sql`FROM ownership WHERE scope IN ${sql.in(owners.map(({ scope }) => scope))}`
    // epochs only grow, so the sum is the same only if each epoch is
    const [all] = yield* sql<{ sum: number }>`SELECT sum(epoch) AS sum ${owned}`
    if (Number(all?.sum) === owners.reduce((sum, { epoch }) => sum + epoch, 0)) return []
    const rows = yield* sql<{ scope: string; epoch: number }>`SELECT scope, epoch ${owned}`
    const newest = new Map(rows.map(({ epoch, scope }) => [scope, Number(epoch)]))
    return owners.filter(({ epoch, scope }) => newest.get(scope) !== epoch)
  })

  return { fence, fenceWith, orIncompatible, replaced }
}

export type Fencing = ReturnType<typeof make>
