/**
 * The leases of request slots, and the pauses of accounts, that the processes of a fleet share.
 *
 * Invariants
 * 1. One transaction at a time changes the leases of an account, because it first locks the account's row. So a late transaction cannot
 *    overwrite a newer transaction of the same process
 * 2. A lease is valid until it has expired, even if its process has died
 * 3. The number of statements does not depend on the number of accounts. On PostgreSQL, one statement locks the rows of all accounts, in
 *    the same order in every process, so that two processes cannot deadlock
 *
 * Gotchas
 * - A lease expires by the clock of the database. The caller measures `left` by its clock, from the moment before the call.
 * - `CommitTracker` does not count these commits: a failover that loses one loses no record, so the new primary must not be treated as an
 *   older copy.
 */
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Order from "effect/Order"
import { SqlClient } from "effect/sql/SqlClient"
import { type Lease, type Share, share, silentAfter } from "../domain/RequestShare.ts"
import { Processes } from "./Processes.ts"
import * as DatabaseTime from "./sql/DatabaseTime.ts"
import { Observed } from "./sql/Health.ts"
import { among, rowsOf } from "./sql/RowValues.ts"
import { CountedCommit, withRetry } from "./sql/SqlRetry.ts"

export interface LeaseClaim {
  readonly account: string
  /** How long the lease lasts. */
  readonly duration: Duration.Duration
  /** How many requests this process may have in flight if it is the only one. */
  readonly concurrency: number
  /** How many slots the process could use. */
  readonly wanted: number
  /** How many slots the process keeps: at least as many as it has requests in flight. It returns the others, and stops using them now. */
  readonly keep: number
  /** Pauses the account for at least this time; zero for no pause. */
  readonly pause: Duration.Duration
}

export interface LeaseResult extends Share {
  /** How long the lease lasts. */
  readonly left: Duration.Duration
  /** How long the pause of the account lasts. */
  readonly pauseLeft: Duration.Duration
}

/** The leases of an account that have not expired, of all processes. */
export interface AccountLeases {
  readonly leases: ReadonlyArray<Pick<Lease, "concurrency" | "slots" | "wanted">>
  readonly pauseLeft: Duration.Duration
}

/** A lease is renewed when it is this old, in ms, so that several renewals fit into `silentAfter`. */
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

/** In the order of their accounts, each of which has one claim. */
type ClaimsInOrder = Arr.NonEmptyReadonlyArray<LeaseClaim>

interface Decision {
  readonly claim: LeaseClaim
  readonly result: LeaseResult
}

const resultsOf = (decisions: ReadonlyArray<Decision>): ReadonlyMap<string, LeaseResult> =>
  new Map(decisions.map(({ claim, result }) => [claim.account, result]))

const make = (sql: SqlClient, self: string) => {
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
      WHERE a.account ${among(sql, accounts)}`
    const byAccount = Map.groupBy(rows, ({ account }) => account)
    return (account: string): AccountState => {
      const own = byAccount.get(account) ?? []
      return {
        paused: Math.max(0, own[0]?.paused ?? 0),
        leases: own.flatMap(({ process, ...lease }) => process === null ? [] : [{ ...lease, process }])
      }
    }
  })

  /**
   * The result of a claim, and the row of the lease after it; null if no row is needed. `isWritten`: the stored rows already contain
   * the claim.
   */
  const decide = (claim: LeaseClaim, { leases, paused }: AccountState) => {
    const { account, concurrency, keep, wanted } = claim
    const row = leases.find(({ process }) => process === self)
    const kept = Math.min(keep, row?.slots ?? 0)
    // getting the first slot and losing the last one each start a new turn
    const turn = row !== undefined && (row.slots === 0) === (kept === 0) ? row.turn : 0
    const own = { process: self, concurrency, wanted, turn, age: 0, slots: kept }
    const next = share(own, leases.filter((lease) => lease !== row))
    const pause = millis(claim.pause)
    const lease = next.slots === 0 && wanted === 0 ? null : {
      account,
      concurrency,
      slots: next.slots,
      wanted,
      turn: kept === 0 && next.slots > 0 ? 0 : turn,
      lasts: next.slots === 0 ? silentAfter : millis(claim.duration)
    }
    const isWritten = pause <= paused && (row === undefined
      ? lease === null
      : row.slots === next.slots && row.wanted === wanted && row.concurrency === concurrency && row.age < renewAfter)
    const result: LeaseResult = {
      ...next,
      left: Duration.millis(next.slots === 0 ? 0 : row?.lasts ?? 0),
      pauseLeft: Duration.millis(Math.max(paused, pause))
    }
    return { claim, isWritten, lease, result }
  }

  /** Locks the rows of the accounts, one after another, and extends their pauses. */
  const lock = Effect.fnUntraced(function*(claims: ClaimsInOrder) {
    const rows = Arr.map(claims, ({ account, pause }, place) => ({ place, account, pause: millis(pause) }))
    const now = yield* time
    yield* sql`
      WITH claimed (place, account, pause) AS (${rowsOf(sql, rows)})
      INSERT INTO request_accounts (account, paused_until)
      SELECT account, ${now} + pause FROM claimed WHERE TRUE ORDER BY place
      ON CONFLICT (account) DO UPDATE SET paused_until =
        CASE WHEN excluded.paused_until > request_accounts.paused_until THEN excluded.paused_until
        ELSE request_accounts.paused_until END`
  })

  /** Replaces the leases of this process, and removes those that have expired. */
  const write = Effect.fnUntraced(function*(claims: ClaimsInOrder, stateOf: (account: string) => AccountState) {
    const decisions = claims.map((claim) => decide(claim, stateOf(claim.account)))
    const now = yield* time
    yield* sql`
      DELETE FROM request_leases
      WHERE account ${among(sql, claims.map(({ account }) => account))} AND (process = ${self} OR expires_at <= ${now})`
    const leases = decisions.flatMap(({ lease }) => lease ?? [])
    if (Arr.isArrayNonEmpty(leases)) {
      yield* sql`
        WITH leased (account, concurrency, slots, wanted, turn, lasts) AS (${rowsOf(sql, leases)})
        INSERT INTO request_leases (account, process, concurrency, slots, wanted, turn_at, renewed_at, expires_at)
        SELECT account, ${self}, concurrency, slots, wanted, ${now} - turn, ${now}, ${now} + lasts FROM leased`
    }
    return resultsOf(decisions.map(({ claim, result }) => ({
      claim,
      result: { ...result, left: result.slots === 0 ? Duration.zero : claim.duration }
    })))
  })

  return {
    /** Reads the leases of an account and its pause. */
    leasesOf: (account: string) =>
      withRetry("leasesOf")(
        Effect.map(read([account]), (seen): AccountLeases => {
          const { leases, paused } = seen(account)
          return { leases, pauseLeft: Duration.millis(paused) }
        })
      ),
    /**
     * Reports demand and pauses of this process, and renews its leases. Returns the result for each account. A lease without slots and
     * demand is removed. While nothing changes this is one statement, otherwise one transaction. Each account has at most one claim.
     */
    claim: (claims: ReadonlyArray<LeaseClaim>) =>
      Effect.gen(function*() {
        if (!Arr.isReadonlyArrayNonEmpty(claims)) return resultsOf([])
        const inOrder: ClaimsInOrder = Arr.sortWith(claims, ({ account }) => account, Order.String)
        const accounts = inOrder.map(({ account }) => account)
        const stateOf = yield* read(accounts)
        const decisions = claims.map((claim) => decide(claim, stateOf(claim.account)))
        if (isSettled && decisions.every(({ isWritten }) => isWritten)) return resultsOf(decisions)
        isSettled = false
        const results = yield* lock(inOrder).pipe(
          Effect.andThen(read(accounts)),
          Effect.flatMap((current) => write(inOrder, current)),
          sql.withTransaction
        )
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

export class RequestLeases
  extends Context.Service<RequestLeases, ReturnType<typeof make>>()("rollcall/store/RequestLeases")
{
  /** The statements need the tables that opening the store creates. */
  static readonly layer: Layer.Layer<RequestLeases, never, SqlClient | Processes> = Layer.effect(
    this,
    Effect.zipWith(SqlClient, Processes, (sql, { self }) => make(sql, self))
  )
}
