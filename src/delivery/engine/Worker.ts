/**
 * Runs claimed deliveries of the shards that this process owns, with a queue for each handler.
 *
 * Invariants
 * 1. Every claimed delivery gets exactly one outcome, even if its attempt is interrupted or its event was erased, unless another
 *    process has taken its shard over: then it gets none
 * 2. A handler that is slow or fails does not delay the deliveries of other handlers
 *
 * Gotchas
 * - The worker claims more deliveries than it runs at once, so that each store transaction settles and claims many.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Metric from "effect/Metric"
import type * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { deliveryScopes } from "../../domain/Shard.ts"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import { configurationOf, type IncompleteConfiguration } from "../../plugin/PluginConfiguration.ts"
import {
  type AttemptOutcome,
  type Claimed,
  type ClaimRequest,
  type Deliveries,
  type Failure,
  isolateAfterCrashes,
  isSwitchedOff,
  type Switch
} from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"
import type * as Attempt from "../handler/Attempt.ts"
import { failureOf, isolatedWaitFailure, processEndedFailure, retryAfterOf } from "../handler/AttemptFailure.ts"
import type * as HandlerContext from "../handler/HandlerContext.ts"
import type { UnavailableIntegrations } from "../handler/IntegrationAccounts.ts"
import * as Job from "../handler/Job.ts"
import * as CircuitBreaker from "./CircuitBreaker.ts"
import * as CrashIsolation from "./CrashIsolation.ts"
import type { EventCache } from "./EventCache.ts"
import { maxDueAhead, outcomeOf } from "./Retry.ts"
import type { ShardHold } from "./ShardHold.ts"
import * as ShardHolds from "./ShardHold.ts"
import type { Subscription } from "./Subscription.ts"
import { containUncaught } from "./UncaughtErrors.ts"
import type { Watchdog } from "./Watchdog.ts"

const defaultConcurrency = 4
/** A plugin is switched off when this many of its deliveries are dead letters because the process ended while they ran. */
const crashesUntilSwitchedOff = 3
/** The most deliveries, queued or running, that a handler has claimed at once. */
const maxHeldPerHandler = 256

const deliveriesCounter = Metric.counter("rollcall_deliveries_total", {
  description: "Deliveries that ended, by outcome: settled or dead",
  incremental: true
})
const failedCounter = Metric.counter("rollcall_delivery_attempts_failed_total", {
  description: "Failed attempts, by reason",
  incremental: true
})
const delayHistogram = Metric.histogram("rollcall_delivery_delay_seconds", {
  description: "Seconds from the detection of a change to the end of its delivery",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200]
})

/** The next claim: a request for each handler that can take more deliveries. */
interface ClaimPlan {
  readonly mode: CrashIsolation.ClaimMode
  readonly requests: ReadonlyArray<ClaimRequest>
}

interface HeldJob extends Job.Job {
  readonly hold: ShardHold
}

interface HeldClaim {
  readonly hold: ShardHold
  readonly claim: Claimed
}

interface HeldOutcome {
  readonly hold: ShardHold
  readonly outcome: AttemptOutcome
}

/** The claimed deliveries of one handler. */
interface HandlerQueue extends Subscription {
  readonly concurrency: number
  readonly breaker: CircuitBreaker.CircuitBreaker
  readonly queued: Array<HeldJob>
  runners: number
  /** Jobs that have no outcome yet, queued or running. */
  inFlight: number
  readonly metrics: {
    readonly settled: Metric.Metric<number, unknown>
    readonly delay: Metric.Metric<number, unknown>
  }
}

export const make = (
  services: HandlerContext.Services & { readonly deliveries: Pick<Deliveries["Service"], "deadLetters" | "setSwitch"> },
  eventCache: EventCache,
  watchdog: Watchdog,
  scope: Scope.Scope
) => {
  const queues = new Map<number, HandlerQueue>()
  const subscribe = (subscription: Subscription) => {
    const { handler, key, plugin } = subscription
    if (queues.has(key)) return
    const labels = { plugin: plugin.name, handler: handler.name }
    queues.set(key, {
      ...subscription,
      concurrency: handler.options.concurrency ?? defaultConcurrency,
      breaker: CircuitBreaker.make(),
      queued: [],
      runners: 0,
      inFlight: 0,
      metrics: {
        settled: Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "settled" }),
        delay: Metric.withAttributes(delayHistogram, labels)
      }
    })
  }
  const holds = ShardHolds.make()
  let outcomes: Array<HeldOutcome> = []
  /** By plugin and integration. */
  const configurations = new Map<string, Result.Result<unknown, IncompleteConfiguration>>()
  let ended = Deferred.makeUnsafe<void>()
  let stopping = false
  const isolation = CrashIsolation.make()
  let draining = false
  let ownsAll = false
  const runningAttempts = new Map<Attempt.Attempt, ShardHold>()

  const isFree = () => [...queues.values()].every(({ inFlight }) => inFlight === 0)
  const push = (hold: ShardHold, outcome: AttemptOutcome) => {
    outcomes.push({ hold, outcome })
    Deferred.doneUnsafe(ended, Exit.void)
  }
  const released = (members: ReadonlyArray<Claimed>): AttemptOutcome => ({
    _tag: "Released",
    deliveries: members.map(({ id }) => id)
  })
  const finishJob = (handlerQueue: HandlerQueue, { hold }: HeldJob, outcome: AttemptOutcome) => {
    handlerQueue.inFlight--
    hold.jobs--
    push(hold, outcome)
  }
  const release = (handlerQueue: HandlerQueue, job: HeldJob) => finishJob(handlerQueue, job, released(job.members))
  /** Releases the queued jobs for which this holds. */
  const releaseQueued = (handlerQueue: HandlerQueue, isReleased: (job: HeldJob) => boolean) => {
    for (const job of handlerQueue.queued.splice(0)) {
      if (isReleased(job)) release(handlerQueue, job)
      else handlerQueue.queued.push(job)
    }
  }
  const releaseQueue = (handlerQueue: HandlerQueue) => releaseQueued(handlerQueue, () => true)

  // ---- configuration

  /** If the configuration is incomplete, the deliveries wait for a process with a complete one. */
  const configurationFor = Effect.fnUntraced(function*({ plugin }: Subscription, integration: string) {
    const key = `${plugin.name} in ${integration}`
    const known = configurations.get(key)
    if (known !== undefined) return known
    const found = yield* Effect.result(configurationOf(plugin, integration))
    configurations.set(key, found)
    if (found._tag === "Failure") {
      yield* Effect.logError("plugin configuration is incomplete: its deliveries in this integration wait").pipe(
        Effect.annotateLogs({ plugin: plugin.name, integration, why: found.failure.message })
      )
    }
    return found
  })

  const unconfigured = (): ReadonlyArray<IncompleteConfiguration> => Arr.getFailures(configurations.values())

  // ---- one attempt

  const succeed = Effect.fnUntraced(function*(handlerQueue: HandlerQueue, job: HeldJob, now: number) {
    const { events, members } = job
    handlerQueue.breaker.succeeded()
    yield* Metric.update(handlerQueue.metrics.settled, members.length)
    for (const { detectedAt } of events) {
      yield* Metric.update(handlerQueue.metrics.delay, (now - detectedAt.getTime()) / 1000)
    }
    finishJob(handlerQueue, job, { _tag: "Settled", deliveries: members.map(({ id }) => id) })
  })

  /** Switches off a plugin whose deliveries keep ending the process: each of its events would end it again. */
  const switchOff = Effect.fnUntraced(
    function*({ plugin }: HandlerQueue, at: number) {
      const { deliveries } = services
      const ended = yield* deliveries.deadLetters({
        plugin: plugin.name,
        reason: "ProcessEnded",
        limit: crashesUntilSwitchedOff
      })
      // the current dead letter is not settled yet, so the store does not list it
      if (ended.length + 1 < crashesUntilSwitchedOff) return
      const detail = `the process ended while ${crashesUntilSwitchedOff} of its deliveries ran`
      yield* deliveries.setSwitch(
        { _tag: "Plugin", plugin: plugin.name, integration: null },
        false,
        { at, command: "plugins.off", target: plugin.name, detail }
      )
      yield* Effect.logError("plugin switched off: the process kept ending while its deliveries ran").pipe(
        Effect.annotateLogs({
          plugin: plugin.name,
          hint: "fix the plugin, then run `rollcall plugins on` and redrive its dead letters"
        })
      )
    },
    Effect.catch((error) =>
      Effect.annotateLogs(Effect.logWarning("plugin could not be switched off"), { why: error.message })
    )
  )

  const fail = Effect.fnUntraced(function*(
    handlerQueue: HandlerQueue,
    job: HeldJob,
    attempt: Attempt.Attempt,
    startedAt: number,
    failure: Failure,
    retryAfter: number
  ) {
    const { handler, plugin } = handlerQueue
    const { members } = job
    const labels = { plugin: plugin.name, handler: handler.name }
    const first = members[0]
    const number = first.claim
    const next = outcomeOf(
      members,
      { number, startedAt, failure, requests: attempt.requests },
      handler.options,
      retryAfter
    )
    const stopped = attempt.hasMetWriteStop() && failure.reason === "RateLimited"
    const outcome = stopped && next._tag === "Retry" ? { ...next, stopped } : next
    yield* Metric.update(Metric.withAttributes(failedCounter, { ...labels, reason: failure.reason }), 1)
    if (outcome._tag === "Dead") {
      yield* Metric.update(Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "dead" }), members.length)
      yield* Effect.logWarning("delivery became a dead letter").pipe(
        Effect.annotateLogs({ ...labels, deadLetter: first.id, reason: failure.reason, why: failure.message })
      )
      if (failure.reason === "ProcessEnded") yield* switchOff(handlerQueue, failure.at)
    }
    if (failure.reason === "RateLimited") return finishJob(handlerQueue, job, outcome)
    const wasOpen = handlerQueue.breaker.circuitOpen()
    handlerQueue.breaker.failed(first.orderingKey, failure.at)
    const openCircuit = handlerQueue.breaker.circuitOpen()
    if (openCircuit !== null) releaseQueue(handlerQueue)
    if (openCircuit !== null && wasOpen === null) {
      yield* Effect.logWarning("handler circuit opened: it fails for one record after another").pipe(
        Effect.annotateLogs({ ...labels, why: failure.message })
      )
    }
    finishJob(handlerQueue, job, outcome)
  })

  const runJob = Effect.fnUntraced(function*(handlerQueue: HandlerQueue, job: HeldJob) {
    const { hold } = job
    const { crashes, id, integration } = job.members[0]
    const startedAt = yield* Clock.currentTimeMillis
    const attempt = Job.attemptOf(handlerQueue, job, hold.owner, services.journal)
    if (crashes > isolateAfterCrashes) {
      return yield* fail(handlerQueue, job, attempt, startedAt, processEndedFailure(crashes, startedAt), 0)
    }
    const configuration = yield* configurationFor(handlerQueue, integration)
    if (configuration._tag === "Failure" || hold.state !== "held") return release(handlerQueue, job)
    const { handler, plugin } = handlerQueue
    runningAttempts.set(attempt, hold)
    if (draining) attempt.timer.abandonWaits()
    const timeout = Job.timeoutOf(handler)
    const exit = yield* Job.runHandler(services, attempt, job, configuration.success).pipe(
      containUncaught({ plugin: plugin.name, handler: handler.name, delivery: id }, attempt.timer.allAnswered),
      watchdog.watched({ plugin: plugin.name, handler: handler.name }),
      // all other deliveries wait for an isolated one, so its waits end at its time-out
      crashes < isolateAfterCrashes ? identity : Effect.raceFirst(
        Effect.andThen(Effect.delay(Effect.sync(attempt.timer.abandonWaits), timeout), Effect.never)
      ),
      Effect.raceFirst(Effect.andThen(Deferred.await(hold.evicted), Effect.interrupt)),
      Effect.interruptible,
      Effect.exit
    )
    attempt.end()
    runningAttempts.delete(attempt)
    const now = yield* Clock.currentTimeMillis
    if (Exit.isSuccess(exit)) return yield* succeed(handlerQueue, job, now)
    if (attempt.timer.hasAbandoned()) {
      if (draining || hold.state !== "held") return release(handlerQueue, job)
      return yield* fail(
        handlerQueue,
        job,
        attempt,
        startedAt,
        isolatedWaitFailure(now),
        CrashIsolation.limits.cooldown
      )
    }
    if ((stopping || hold.isEvicted) && Cause.hasInterruptsOnly(exit.cause)) return release(handlerQueue, job)
    yield* fail(
      handlerQueue,
      job,
      attempt,
      startedAt,
      failureOf(exit.cause, timeout, now),
      retryAfterOf(exit.cause)
    )
  })

  /** Runs the queued jobs of a handler one after another. */
  const runner = (handlerQueue: HandlerQueue) =>
    Effect.uninterruptible(Effect.gen(function*() {
      for (let job = handlerQueue.queued.shift(); job !== undefined; job = handlerQueue.queued.shift()) {
        yield* runJob(handlerQueue, job)
      }
      handlerQueue.runners--
    }))

  // ---- claims

  const jobsOf = (claimed: ReadonlyArray<HeldClaim>, events: ReadonlyMap<number, PublishedEvent>) => {
    const jobs: Array<HeldJob> = []
    for (const own of Map.groupBy(claimed, ({ claim: { batch, id } }) => batch ?? id).values()) {
      const [first, ...others] = own.map(({ claim }) => claim)
      const hold = own[0]?.hold
      if (first === undefined || hold === undefined) continue
      const members = [first, ...others] as const
      const found = members.flatMap(({ subject }) => {
        const event = subject._tag === "Event" ? events.get(subject.position) : undefined
        return event === undefined ? [] : [event]
      })
      jobs.push({ members, events: found, hold })
    }
    return jobs
  }

  /** Settles deliveries whose record or integration has been erased: there is no event to deliver. */
  const dropErased = (
    claimed: ReadonlyArray<HeldClaim>,
    events: ReadonlyMap<number, PublishedEvent>,
    unavailable: UnavailableIntegrations
  ) =>
    claimed.filter(({ claim: { id, integration, subject }, hold }) => {
      const exists = !unavailable.erased.has(integration) && (subject._tag === "Tick" || events.has(subject.position))
      if (!exists) push(hold, { _tag: "Settled", deliveries: [id] })
      return exists
    })

  const releaseClaims = (claimed: ReadonlyArray<HeldClaim>) => {
    for (const { claim, hold } of claimed) push(hold, released([claim]))
  }

  const start = Effect.fnUntraced(function*(
    claimed: ReadonlyArray<Claimed>,
    unavailable: UnavailableIntegrations
  ): Effect.fn.Return<void, StoreError> {
    if (claimed.length === 0) return
    const held = claimed.flatMap((claim): ReadonlyArray<HeldClaim> => {
      const hold = holds.of(claim.integration)
      // if the shard has moved meanwhile, its next owner makes the delivery due again
      return hold === undefined ? [] : [{ claim, hold }]
    })
    const positions = new Set(claimed.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const events = yield* Effect.tapError(eventCache.load(positions), () => Effect.sync(() => releaseClaims(held)))
    const remaining = dropErased(held, events, unavailable)
    const now = yield* Clock.currentTimeMillis
    for (const [key, own] of Map.groupBy(remaining, ({ claim }) => claim.handler)) {
      const handlerQueue = queues.get(key)
      const jobs = jobsOf(own, events)
      // the circuit may have opened while these deliveries were being claimed
      if (handlerQueue === undefined || handlerQueue.breaker.capacity(jobs.length, handlerQueue.inFlight, now) === 0) {
        releaseClaims(own)
        continue
      }
      for (const { hold } of jobs) hold.jobs++
      handlerQueue.inFlight += jobs.length
      handlerQueue.queued.push(...jobs)
      releaseQueued(handlerQueue, ({ hold }) => hold.state !== "held")
      const runners = Math.min(handlerQueue.concurrency - handlerQueue.runners, handlerQueue.queued.length)
      for (let index = 0; index < runners; index++) {
        handlerQueue.runners++
        yield* Effect.forkIn(runner(handlerQueue), scope)
      }
    }
  })

  const exceptFor = (
    off: ReadonlyArray<Switch>,
    plugin: string,
    { removed }: UnavailableIntegrations
  ): ReadonlyArray<string> => [
    ...removed,
    ...off.flatMap((each) =>
      each._tag === "Plugin" && each.plugin === plugin && each.integration !== null ? [each.integration] : []
    ),
    ...unconfigured().flatMap((one) => one.plugin === plugin ? [one.integration] : [])
  ]

  /** Releases queued deliveries whose plugin has been switched off, or whose integration has been removed. */
  const releaseDisabled = (off: ReadonlyArray<Switch>, unavailable: UnavailableIntegrations) => {
    for (const handlerQueue of queues.values()) {
      const except = isSwitchedOff(off, handlerQueue.plugin.name, null)
        ? null
        : new Set(exceptFor(off, handlerQueue.plugin.name, unavailable))
      releaseQueued(handlerQueue, ({ members }) => except === null || except.has(members[0].integration))
    }
  }

  /** A claim request for each handler that can take more deliveries now. */
  const claimRequestsOf = (
    now: number,
    off: ReadonlyArray<Switch>,
    unavailable: UnavailableIntegrations,
    mode: CrashIsolation.ClaimMode
  ): ReadonlyArray<ClaimRequest> =>
    [...queues.values()].flatMap((handlerQueue): ReadonlyArray<ClaimRequest> => {
      const { breaker, concurrency, batchWindow, handler, inFlight, key, plugin } = handlerQueue
      const size = handler.activation._tag === "Batch" ? handler.activation.size : null
      const most = breaker.capacity(
        (size === null ? Math.max(maxHeldPerHandler, concurrency) : concurrency) - inFlight,
        inFlight,
        now
      )
      if (most <= 0 || isSwitchedOff(off, plugin.name, null)) return []
      return [{
        handler: key,
        most,
        mostAfterCrash: Math.max(0, concurrency - inFlight),
        isolated: mode === "isolated",
        size,
        concurrency,
        excludedIntegrations: exceptFor(off, plugin.name, unavailable),
        maxLead: maxDueAhead(handler.options, batchWindow)
      }]
    })

  /** Plans the next claim. While an isolated delivery waits for the others to end, nothing is claimed and all queues are released. */
  const planClaim = (now: number, off: ReadonlyArray<Switch>, unavailable: UnavailableIntegrations): ClaimPlan => {
    const ownedAll = ownsAll
    ownsAll = holds.all("held").length === deliveryScopes.length
    // other processes count queued deliveries as running
    if (ownedAll && !ownsAll) { for (const handlerQueue of queues.values()) releaseQueue(handlerQueue) }
    const mode = isolation.nextMode(now, isFree())
    if (mode !== "nothing") return { mode, requests: claimRequestsOf(now, off, unavailable, mode) }
    for (const handlerQueue of queues.values()) releaseQueue(handlerQueue)
    return { mode, requests: [] }
  }

  /** Takes the claimed deliveries. Returns whether to claim again at once. */
  const onClaimed = (
    now: number,
    { mode }: ClaimPlan,
    claimed: ReadonlyArray<Claimed>,
    isolatedDue: boolean
  ): boolean => isolation.onClaimed(now, mode, claimed.length > 0, isolatedDue, isFree())

  /** Gives up a shard that another process has taken over: its attempts end, and nothing is settled. */
  const drop = (shard: number) => {
    const hold = holds.drop(shard)
    if (hold === undefined) return
    for (const handlerQueue of queues.values()) releaseQueued(handlerQueue, (job) => job.hold === hold)
  }

  return {
    subscribe,
    planClaim,
    onClaimed,
    releaseDisabled,
    start,
    hold: holds.add,
    holds: (state: ShardHold["state"]) => holds.all(state),
    drop,
    /** Starts nothing more of the shard, so that it can move. Its running attempts continue, unless they wait for a request slot. */
    leave: (shard: number) => {
      const hold = holds.leave(shard)
      if (hold === undefined) return
      for (const handlerQueue of queues.values()) releaseQueued(handlerQueue, (job) => job.hold === hold)
      for (const [{ timer }, of] of runningAttempts) if (of === hold) timer.abandonWaits()
    },
    /** Interrupts the running attempts of the shard; they are released. */
    evict: holds.evict,
    /** Nothing of the shard runs, and everything is settled. */
    hasLeft: (shard: number): boolean => {
      const hold = holds.get(shard)
      return hold === undefined || (hold.jobs === 0 && outcomes.every((outcome) => outcome.hold !== hold))
    },
    isHeld: (shard: number): boolean => holds.get(shard) !== undefined,
    /**
     * The outcomes of shards in this state that `settled` has not removed yet, oldest first. Those of dropped shards are not settled in
     * the store, but the end of a job leaves room for another.
     */
    outcomes: (state: ShardHold["state"]): ReadonlyArray<HeldOutcome> =>
      outcomes.filter(({ hold }) => hold.state === state),
    settled: (settled: ReadonlyArray<HeldOutcome>) => {
      const done = new Set(settled)
      outcomes = outcomes.filter((outcome) => !done.has(outcome))
      if (outcomes.length === 0) ended = Deferred.makeUnsafe()
    },
    /** Returns once there are outcomes and no further one follows immediately, so that one commit settles many. */
    awaitEnd: Effect.gen(function*() {
      yield* Deferred.await(ended)
      for (let count = 0; outcomes.length > count && count < maxHeldPerHandler * queues.size;) {
        count = outcomes.length
        yield* Effect.yieldNow
      }
    }),
    isIdle: () => outcomes.length === 0 && isFree(),
    /** When the next open circuit may be probed, or isolation changes. A circuit that may already be probed waits for a delivery. */
    wakeAt: (now: number): number =>
      Math.min(
        isolation.wakeAt(now),
        ...[...queues.values()].flatMap(({ breaker, inFlight }) => {
          const circuitOpen = breaker.circuitOpen()
          return circuitOpen === null || inFlight > 0 || circuitOpen.until <= now ? [] : [circuitOpen.until]
        })
      ),
    /** Starts nothing more. Running attempts continue, unless they wait for a request slot. */
    drain: () => {
      draining = true
      for (const handlerQueue of queues.values()) releaseQueue(handlerQueue)
      for (const { timer } of runningAttempts.keys()) timer.abandonWaits()
    },
    /** An attempt that is interrupted from now on is released, for the next process to deliver. */
    stop: () => {
      stopping = true
    },
    status: () =>
      [...queues.values()].map(({ breaker, handler, inFlight, key, plugin, queued }) => ({
        key,
        plugin: plugin.name,
        handler: handler.name,
        running: inFlight - queued.length,
        circuitOpen: breaker.circuitOpen()
      })),
    unconfigured
  }
}

export type Worker = ReturnType<typeof make>
