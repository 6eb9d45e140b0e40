/**
 * The request budget that the processes on one database share. Each process leases slots of each account, and learns of pauses that other
 * processes reported.
 *
 * Invariants
 * 1. All processes together never have more requests in flight than the account's concurrency, even if some are killed, frozen or cut off
 *    from the database. A request starts only if its timeout ends before the lease expires
 * 2. While the database responds, a pause that one process reports reaches the others within a second. Pauses are never shortened   (R1)
 * 3. The number of statements does not depend on the numbers of requests and accounts: one statement every `interval` claims all accounts.
 *    Without demand there are no statements
 *
 * Details
 * A lease expires by the clock of the database. This process measures the duration of a lease from the moment before it sent the
 * statement, so here the lease never expires later than in the database. The elapsed time is the larger of two clocks' times: the
 * monotonic clock stops while the machine is suspended, and the wall clock may be set back   (W4).
 *
 * A lease lasts for the time limit of a request (`timeout`, a minute by default), plus `startWindow` and `margin`: 75 seconds. The slots of a
 * process that was killed stay taken until then.
 *
 * Gotchas
 * - A lease shrinks in two steps, because requests may start while a statement is on its way: first this process stops using the slots,
 *   then it returns those without a request.
 * - The last check of the lease is made when the connection is open. A process that is frozen directly after it still sends the request
 *   when it resumes, as in `SendAttempt`.
 * - If the database's clock is set forward by more than `margin`, or if a failover loses leases, too many requests may be in flight until
 *   some have ended.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { type LeaseClaim, type LeaseResult, RequestLeases } from "../store/RequestLeases.ts"
import { millisOf } from "./MonotonicClock.ts"
import { type AccountBudget, type BudgetOptions, RequestBudget } from "./RequestBudget.ts"

/** How long requests may still start after the last statement to which the database responded. */
const startWindow = Duration.seconds(10)
/** Tolerance for a request that ends later than its timeout, and for a clock of the database that is too fast. */
const margin = Duration.seconds(5)
/** Time between two statements, in ms. The short one applies if this process needs more slots or can return some. */
const interval = 500
const shortInterval = 250
/** How long unused slots are kept while no other process needs them, in ms, because a stream's next page follows soon. */
const linger = 2_000
/** A warning is logged if requests have waited this long and the process has no slot, in ms. */
const longWait = 10_000
/** How long a process that stops waits for the store to take back its slots. */
const returnTimeout = "1 second"

const slotsGauge = Metric.gauge("rollcall_api_slots", {
  description:
    "With PostgreSQL: requests to the unified API that this process may have in flight; all processes together have at most the concurrency of each account"
})

/** An integration may use half of the slots, so n requests of one integration need 2n - 1 slots (see `RequestScheduler`). */
const slotsFor = (requests: number, concurrency: number): number => Math.max(0, Math.min(concurrency, 2 * requests - 1))

/** `wake` requests that the next statement is sent no later than a time (ms of the monotonic clock). */
const makeAccount = (
  options: BudgetOptions,
  clock: Clock.Clock,
  wake: (at: number) => void,
  { leasesOf }: Pick<RequestLeases["Service"], "leasesOf">
) => {
  const { account, concurrency, timeout } = options
  const duration = Duration.sum(timeout, Duration.sum(startWindow, margin))
  const longestRequest = Duration.toMillis(Duration.sum(timeout, margin))
  const now = () => millisOf(clock)
  const times = () => [now(), clock.currentTimeMillisUnsafe()] as const

  let inFlight = 0
  let requests = 0
  /** The largest demand since the last statement, and the last demand that was reported to the database. */
  let peak = 0
  let reported = { wanted: 0, at: -Infinity }
  let claimedAt = -Infinity
  /** The lease in the last result. `goal`: the slots that this process should keep. `from`: when the statement was sent. */
  let lease = { slots: 0, goal: 0, left: 0, from: times(), isContended: false }
  /** The end of the pause that this process observed, and the end that it has reported to the others. */
  let pausedUntil = -Infinity
  let sharedUntil = -Infinity
  let isIdle = true
  /** Since when there is demand and no slot. Infinity if nothing waits, or if there is a slot; null if the warning is already logged. */
  let emptySince: number | null = Infinity

  const leaseLeft = () => {
    const [monotonic, wall] = times()
    return lease.left - Math.max(monotonic - lease.from[0], wall - lease.from[1])
  }
  // after this process was frozen, more requests may have a slot than its new lease allows
  const isValid = () => lease.slots >= inFlight && leaseLeft() >= longestRequest
  const slots = () => isValid() ? Math.min(lease.slots, lease.goal) : 0

  const logLongWait = (isEmpty: boolean) =>
    Effect.suspend(() => {
      if (!isEmpty) emptySince = Infinity
      else if (emptySince !== null) emptySince = Math.min(emptySince, now())
      if (emptySince === null || now() - emptySince < longWait) return Effect.void
      emptySince = null
      return Effect.annotateLogs(
        Effect.logWarning("requests wait: other processes have all request slots of the account"),
        {
          account,
          hint: `if a process was killed, its slots become free ${
            Duration.format(duration)
          } later; \`rollcall fleet\` lists the processes`
        }
      )
    })

  const budget: AccountBudget = {
    slots,
    isValid,
    report: (running, waiting) => {
      inFlight = running
      requests = running + waiting
      const wanted = slotsFor(requests, concurrency)
      peak = Math.max(peak, wanted)
      const couldGrow = wanted > lease.slots && (wanted > reported.wanted || lease.slots < lease.goal)
      const couldReturn = lease.slots > Math.max(lease.goal, inFlight)
      if (couldGrow || couldReturn) wake(claimedAt + shortInterval)
    },
    pause: (left) => {
      pausedUntil = Math.max(pausedUntil, now() + Duration.toMillis(left))
      wake(claimedAt + shortInterval)
    },
    usage: Effect.map(leasesOf(account), ({ leases, pauseLeft }) => ({
      limit: Math.min(concurrency, ...leases.map((lease) => lease.concurrency)),
      taken: leases.reduce((sum, lease) => sum + lease.slots, 0),
      wanted: leases.reduce((sum, lease) => sum + lease.wanted, 0),
      processes: leases.length,
      pauseLeft
    }))
  }

  return {
    account,
    budget,
    slots,
    /**
     * The claim of this account in the next statement; null if the account needs no statement. From now on, this process uses only the
     * slots that the claim keeps.
     */
    claim: (
      isLast: boolean
    ): { readonly claim: LeaseClaim; readonly onResult: (result: LeaseResult) => Effect.Effect<void> } | null => {
      const from = times()
      const [at] = from
      claimedAt = at
      if (peak >= reported.wanted || lease.isContended || at - reported.at >= linger) reported = { wanted: peak, at }
      peak = slotsFor(requests, concurrency)
      const wanted = isLast ? inFlight : reported.wanted
      const pause = pausedUntil > sharedUntil ? Math.max(0, pausedUntil - at) : 0
      if (isIdle && wanted === 0 && pause === 0) return null
      isIdle = false
      const keep = Math.min(lease.slots, Math.max(inFlight, Math.min(lease.goal, wanted)))
      lease = { ...lease, slots: keep }
      const until = pausedUntil
      return {
        claim: { account, duration, concurrency, wanted, keep, pause: Duration.millis(pause) },
        onResult: ({ goal, isContended, left, pauseLeft, slots }) =>
          Effect.suspend(() => {
            lease = { slots, goal, isContended, left: Duration.toMillis(left), from }
            sharedUntil = until
            isIdle = wanted === 0 && slots === 0
            return Effect.andThen(logLongWait(wanted > 0 && slots === 0), options.onChange(pauseLeft))
          })
      }
    }
  }
}

const make = Effect.gen(function*() {
  const leases = yield* RequestLeases
  const clock = yield* Clock.Clock
  const now = () => millisOf(clock)
  const accounts: Array<ReturnType<typeof makeAccount>> = []
  const awakened = Latch.makeUnsafe(false)
  let dueAt = Infinity

  const wake = (at: number) => {
    if (at >= dueAt) return
    dueAt = at
    awakened.openUnsafe()
  }
  const awaitDue: Effect.Effect<void> = Effect.suspend(() => {
    awakened.closeUnsafe()
    const left = dueAt - now()
    if (left <= 0) return Effect.void
    const awaitWake = awakened.await
    return Effect.andThen(
      left === Infinity ? awaitWake : Effect.raceFirst(Effect.sleep(Math.ceil(left)), awaitWake),
      awaitDue
    )
  })

  /** Claims slots for all accounts that need a claim; returns false if none does. */
  const synchronize = Effect.fnUntraced(function*(isLast: boolean) {
    const claims = accounts.flatMap((account) => account.claim(isLast) ?? [])
    if (claims.length === 0) return false
    // After a failure, even a defect of the driver, the leases expire when they would have anyway, and the next statement repeats the
    // claims.
    const results = yield* leases.claim(claims.map(({ claim }) => claim)).pipe(
      Effect.orElseSucceed(() => null),
      Effect.catchDefect(() => Effect.succeed(null))
    )
    for (const { claim, onResult } of claims) {
      const result = results?.get(claim.account)
      if (result !== undefined) yield* onResult(result)
    }
    yield* Metric.update(slotsGauge, accounts.reduce((sum, { slots }) => sum + slots(), 0))
    return true
  })

  const cycle = Effect.gen(function*() {
    yield* awaitDue
    dueAt = Infinity
    if (yield* synchronize(false)) wake(now() + interval)
  })

  // The finalizer is added before the loop starts, so that it runs after the loop has stopped.
  yield* Effect.addFinalizer(() => Effect.ignore(Effect.timeout(synchronize(true), returnTimeout)))
  yield* Effect.forkScoped(Effect.forever(cycle))
  return RequestBudget.of({
    open: (options) =>
      Effect.sync(() => {
        const account = makeAccount(options, clock, wake, leases)
        accounts.push(account)
        return account.budget
      })
  })
})

/** Shares the budget with all processes on the same database. */
export const layer: Layer.Layer<RequestBudget, never, RequestLeases> = Layer.effect(RequestBudget, make)
