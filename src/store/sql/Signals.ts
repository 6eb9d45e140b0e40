/**
 * Wakes waiting fibers of every process after a commit that they wait for, such as an operator's decision. On PostgreSQL, a process
 * notices commits of other processes within a second. On SQLite, only commits of this process are noticed, because one process serves
 * operators.
 *
 * Invariants
 * 1. No occurrence is missed: its transaction locks the counter until the commit, so counters become visible in order
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { failOnDefect } from "../Recovery.ts"
import type { StoreError } from "../StoreError.ts"
import { withRetry } from "./SqlRetry.ts"

/**
 * Wakes waiting fibers when something happens in this process. The occurrences are counted, so that a fiber that read the count before an
 * occurrence does not miss the occurrence.
 */
export const makeNotifier = () => {
  let times = 0
  let next = Deferred.makeUnsafe<void>()
  return {
    /** Counts an occurrence and wakes the waiting fibers. */
    give: Effect.suspend(() => {
      const waiters = next
      times++
      next = Deferred.makeUnsafe<void>()
      return Deferred.succeed(waiters, undefined)
    }),
    /** Number of occurrences. */
    times: Effect.sync(() => times),
    /** Waits until there are more than `seen` occurrences; returns their number. */
    after: (seen: number): Effect.Effect<number> =>
      Effect.suspend(() => times > seen ? Effect.void : Deferred.await(next)).pipe(
        Effect.andThen(Effect.sync(() => times))
      )
  }
}

export type Notifier = ReturnType<typeof makeNotifier>

/**
 * `decision`: an operator decided on a hold. `command`: an operator changed deliveries or switches. `integration`: an integration was saved.
 */
type Name = "decision" | "command" | "integration"
type Notifiers = Readonly<Record<Name, Notifier>>

const checkInterval = "1 second"

export class Signals extends Context.Service<Signals, {
  /** The last step of an open transaction: wakes the waiting fibers after the commit. */
  readonly raise: (name: Name) => Effect.Effect<void, SqlError>
  /** Waits until this process knows of more than `seen` occurrences; returns how many it knows of. */
  readonly after: (name: Name, seen: number) => Effect.Effect<number>
}>()("rollcall/store/Signals") {}

const local = (sql: SqlClient.SqlClient, notifiers: Notifiers) =>
  Signals.of({
    raise: (name) => sql.afterCommit(notifiers[name].give),
    after: (name, seen) => notifiers[name].after(seen)
  })

const shared = Effect.fnUntraced(
  function*(sql: SqlClient.SqlClient, notifiers: Notifiers) {
    const known = new Map<string, number>()
    const counters = sql<{ name: string; counter: number }>`SELECT name, counter FROM signals`
    // This runs before the store is used, so every later commit raises a counter above these values.
    for (const { counter, name } of yield* withRetry("signals")(counters)) known.set(name, counter)
    const check = Effect.flatMap(
      counters,
      Effect.forEach(({ counter, name }) => {
        if (counter === (known.get(name) ?? 0)) return Effect.void
        known.set(name, counter)
        // a newer version may know further names
        return Object.entries(notifiers).find(([own]) => own === name)?.[1].give ?? Effect.void
      })
    )
    // `Health` logs why a check fails; after a defect the next check tries again
    yield* Effect.ignore(failOnDefect(check)).pipe(Effect.delay(checkInterval), Effect.forever, Effect.forkScoped)
    return Signals.of({
      raise: (name) =>
        sql<{ counter: number }>`
          INSERT INTO signals ${sql.insert({ name, counter: 1 })}
          ON CONFLICT (name) DO UPDATE SET counter = signals.counter + 1 RETURNING counter`.pipe(
          Effect.flatMap(([row]) =>
            sql.afterCommit(Effect.suspend(() => {
              known.set(name, Math.max(known.get(name) ?? 0, Number(row?.counter)))
              return notifiers[name].give
            }))
          )
        ),
      after: (name, seen) => notifiers[name].after(seen)
    })
  }
)

/** Requires a migrated database. */
export const make: Effect.Effect<Signals["Service"], StoreError, SqlClient.SqlClient | Scope.Scope> = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => {
    const notifiers = { decision: makeNotifier(), command: makeNotifier(), integration: makeNotifier() }
    return sql.onDialectOrElse({
      pg: () => shared(sql, notifiers),
      orElse: () => Effect.succeed(local(sql, notifiers))
    })
  }
)
