/**
 * The `RequestLeases` port over any `SqlClient`.
 *
 * Invariants
 * 1. One transaction at a time changes the leases of an account, because it first locks the account's row. So a late transaction cannot
 *    overwrite a newer transaction of the same process
 * 2. A lease is valid until it has expired, even if its process has died
 *
 * Gotchas
 * - `CommitTracker` does not count these commits: a failover that loses one loses no record, so the new primary must not be treated as an
 *   older copy.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { type Lease, share, silentAfter } from "../../domain/RequestShare.ts"
import { Processes } from "../Processes.ts"
import { type LeaseClaim, type LeaseResult, RequestLeases } from "../RequestLeases.ts"
import { CountedCommit } from "./Connection.ts"
import * as DatabaseTime from "./DatabaseTime.ts"
import { Observed } from "./Health.ts"
import { withRetry } from "./SqlRetry.ts"

/** A lease is renewed when it is this old, in ms: several times before it is treated as silent. */
const renewAfter = 1_500

interface Found extends Omit<Lease, "process"> {
  readonly account: string
  /** Null if the account has no lease. */
  readonly process: string | null
  readonly paused: number
  readonly lasts: number
}

interface AccountState {
  readonly paused: number
  readonly leases: ReadonlyArray<Lease & { readonly lasts: number }>
}

const make = (sql: SqlClient, self: string): RequestLeases["Service"] => {
  const time = DatabaseTime.make(sql)
  /** False after a transaction that failed: its commit may still take effect, and change the rows that were read. */
  let isSettled = true
  const millis = (duration: Duration.Duration) => Math.ceil(Duration.toMillis(duration))

  const read = Effect.fnUntraced(function*(accounts: ReadonlyArray<string>) {
    const now = yield* time
    const rows = yield* sql<Found>`
      SELECT a.account, a.paused_until - ${now} AS paused, l.process, l.concurrency, l.slots, l.wanted,
        ${now} - l.turn_at AS turn, ${now} - l.renewed_at AS age, l.expires_at - ${now} AS lasts
      FROM request_accounts a LEFT JOIN request_leases l ON l.account = a.account AND l.expires_at > ${now}
      WHERE a.account IN ${sql.in(accounts)}`
    const byAccount = Map.groupBy(rows, ({ account }) => account)
    return (account: string): AccountState => {
      const own = byAccount.get(account) ?? []
      return {
        paused: Math.max(0, own[0]?.paused ?? 0),
        leases: own.flatMap(({ process, ...lease }) => process === null ? [] : [{ ...lease, process }])
      }
    }
  })

  /** The result of a claim. `isWritten`: the stored rows already contain it. */
  const decide = (claim: LeaseClaim, { leases, paused }: AccountState) => {
    const { concurrency, keep, wanted } = claim
    const row = leases.find(({ process }) => process === self)
    const kept = Math.min(keep, row?.slots ?? 0)
    // getting the first slot and losing the last one each start a new turn
    const turn = row !== undefined && (row.slots === 0) === (kept === 0) ? row.turn : 0
    const own = { process: self, concurrency, wanted, turn, age: 0, slots: kept }
    const next = share(own, leases.filter((lease) => lease !== row))
    const isNeeded = next.slots > 0 || wanted > 0
    const pause = millis(claim.pause)
    const isWritten = pause <= paused && (row === undefined
      ? !isNeeded
      : row.slots === next.slots && row.wanted === wanted && row.concurrency === concurrency && row.age < renewAfter)
    const result: LeaseResult = {
      ...next,
      left: Duration.millis(next.slots === 0 ? 0 : row?.lasts ?? 0),
      pauseLeft: Duration.millis(Math.max(paused, pause))
    }
    return { isNeeded, isWritten, result, turn: kept === 0 && next.slots > 0 ? 0 : turn }
  }

  const lock = Effect.fnUntraced(function*({ account, pause }: LeaseClaim) {
    const until = sql`${yield* time} + ${sql.literal(String(millis(pause)))}`
    yield* sql`
      INSERT INTO request_accounts (account, paused_until) VALUES (${account}, ${until})
      ON CONFLICT (account) DO UPDATE SET paused_until =
        CASE WHEN excluded.paused_until > request_accounts.paused_until THEN excluded.paused_until
        ELSE request_accounts.paused_until END`
  })

  const write = Effect.fnUntraced(function*(claim: LeaseClaim, state: AccountState) {
    const { account, concurrency, wanted } = claim
    const { result, isNeeded, turn } = decide(claim, state)
    const now = yield* time
    const lasts = result.slots === 0 ? silentAfter : millis(claim.duration)
    yield* sql`
      DELETE FROM request_leases WHERE account = ${account} AND (process = ${self} OR expires_at <= ${now})`
    if (!isNeeded) return result
    yield* sql`
      INSERT INTO request_leases (account, process, concurrency, slots, wanted, turn_at, renewed_at, expires_at)
      VALUES (${account}, ${self}, ${concurrency}, ${result.slots}, ${wanted}, ${now} - ${
      sql.literal(String(turn))
    }, ${now},
        ${now} + ${sql.literal(String(lasts))})`
    return { ...result, left: Duration.millis(result.slots === 0 ? 0 : lasts) }
  })

  return {
    leasesOf: (account) =>
      withRetry("leasesOf")(
        Effect.map(read([account]), (seen) => {
          const { leases, paused } = seen(account)
          return { leases, pauseLeft: Duration.millis(paused) }
        })
      ),
    claim: (claims) =>
      Effect.gen(function*() {
        const accounts = claims.map(({ account }) => account).sort()
        const seen = yield* read(accounts)
        const decisions = claims.map((claim) => ({ claim, ...decide(claim, seen(claim.account)) }))
        const results = new Map(decisions.map(({ result, claim }) => [claim.account, result]))
        if (isSettled && decisions.every(({ isWritten }) => isWritten)) return results
        isSettled = false
        yield* Effect.gen(function*() {
          const inOrder = claims.toSorted((one, other) => one.account < other.account ? -1 : 1)
          for (const claim of inOrder) yield* lock(claim)
          const current = yield* read(accounts)
          for (const claim of inOrder) results.set(claim.account, yield* write(claim, current(claim.account)))
        }).pipe(sql.withTransaction)
        isSettled = true
        return results
      }).pipe(
        withRetry("claimRequests"),
        Effect.provideService(CountedCommit, false),
        // a process that gets no response stops sending requests; nothing else waits for these statements
        Effect.provideService(Observed, false)
      )
  }
}

/** The statements need the tables that opening the store creates. */
export const layer: Layer.Layer<RequestLeases, never, SqlClient | Processes> = Layer.effect(
  RequestLeases,
  Effect.zipWith(SqlClient, Processes, (sql, { self }) => RequestLeases.of(make(sql, self)))
)
