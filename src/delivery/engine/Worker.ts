/**
 * Runs what was claimed, handler by handler: hides queues, time-outs and what an attempt's end means.
 *
 * Invariants
 * 1. Every claim ends in exactly one outcome, also when it is interrupted or its event is gone
 * 2. A handler that is slow or fails keeps nobody else's deliveries waiting
 *
 * Gotchas
 * - More is claimed than runs at once, so that a turn of the store is worth its commit.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import { configurationOf, type IncompleteConfiguration } from "../../plugin/PluginConfiguration.ts"
import {
  type AttemptOutcome,
  type Claimed,
  type ClaimRequest,
  type Failure,
  isolateAfterCrashes,
  type Switch
} from "../../store/Deliveries.ts"
import type { Owner, StoreError } from "../../store/Store.ts"
import type * as Attempt from "../handler/Attempt.ts"
import { failureOf, isolatedWaitFailure, processEndedFailure, retryAfterOf } from "../handler/AttemptFailure.ts"
import type * as HandlerContext from "../handler/HandlerContext.ts"
import type { UnavailableIntegrations } from "../handler/IntegrationAccounts.ts"
import * as Job from "../handler/Job.ts"
import * as CircuitBreaker from "./CircuitBreaker.ts"
import * as CrashIsolation from "./CrashIsolation.ts"
import type { EventCache } from "./EventCache.ts"
import { maxDueAhead, outcomeOf } from "./Retry.ts"
import type { Subscription } from "./Subscription.ts"
import { containUncaught } from "./UncaughtErrors.ts"
import type { Watchdog } from "./Watchdog.ts"

const usualConcurrency = 4
/** Deliveries of a plugin with which the process ended: after so many that are dead letters it is switched off. */
const crashesUntilSwitchedOff = 3
/** Deliveries that a handler holds at most. */
const maxHeldPerHandler = 256

const deliveriesCounter = Metric.counter("rollcall_deliveries_total", {
  description: "Deliveries that came to an end, by outcome: settled, or dead",
  incremental: true
})
const failedCounter = Metric.counter("rollcall_delivery_attempts_failed_total", {
  description: "Attempts that failed, by reason",
  incremental: true
})
const delayHistogram = Metric.histogram("rollcall_delivery_delay_seconds", {
  description: "From the moment a change was detected until its delivery was done",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200]
})

/** What is to be claimed now, by handler. */
interface ClaimPlan {
  readonly mode: CrashIsolation.ClaimMode
  readonly requests: ReadonlyArray<ClaimRequest>
}

/** What is at hand for one handler. */
interface HandlerQueue extends Subscription {
  readonly concurrency: number
  readonly breaker: CircuitBreaker.CircuitBreaker
  readonly queue: Array<Job.Job>
  runners: number
  /** Jobs, queued or under way, that have no outcome yet. */
  inFlight: number
  readonly metrics: {
    readonly settled: Metric.Metric<number, unknown>
    readonly delay: Metric.Metric<number, unknown>
  }
}

export const make = (
  services: HandlerContext.Services,
  eventCache: EventCache,
  watchdog: Watchdog,
  owner: Owner,
  subscriptions: ReadonlyArray<Subscription>,
  scope: Scope.Scope
) => {
  const queues = new Map(subscriptions.map((subscription): [number, HandlerQueue] => {
    const { handler, key, plugin } = subscription
    const labels = { plugin: plugin.name, handler: handler.name }
    return [key, {
      ...subscription,
      concurrency: handler.options.concurrency ?? usualConcurrency,
      breaker: CircuitBreaker.make(),
      queue: [],
      runners: 0,
      inFlight: 0,
      metrics: {
        settled: Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "settled" }),
        delay: Metric.withAttributes(delayHistogram, labels)
      }
    }]
  }))
  const outcomes: Array<AttemptOutcome> = []
  const unconfigured = new Map<string, IncompleteConfiguration>()
  const configured = new Map<string, unknown>()
  let ended = Deferred.makeUnsafe<void>()
  let stopping = false
  const isolation = CrashIsolation.make()
  let draining = false
  const runningAttempts = new Set<Attempt.Attempt>()

  const isFree = () => [...queues.values()].every(({ inFlight }) => inFlight === 0)
  const push = (outcome: AttemptOutcome) => {
    outcomes.push(outcome)
    Deferred.doneUnsafe(ended, Exit.void)
  }
  const released = (members: ReadonlyArray<Claimed>): AttemptOutcome => ({
    _tag: "Released",
    deliveries: members.map(({ id }) => id)
  })
  const finishJob = (desk: HandlerQueue, outcome: AttemptOutcome) => {
    desk.inFlight--
    push(outcome)
  }
  const releaseQueue = (desk: HandlerQueue) => {
    for (const { members } of desk.queue.splice(0)) finishJob(desk, released(members))
  }

  // ---- configuration

  const placeOf = (plugin: string, integration: string) => `${plugin} in ${integration}`

  /** null: not complete. Its deliveries wait for a process that has it. */
  const configurationFor = Effect.fnUntraced(function*({ plugin }: Subscription, integration: string) {
    const place = placeOf(plugin.name, integration)
    if (configured.has(place)) return { value: configured.get(place) }
    if (unconfigured.has(place)) return null
    const found = yield* Effect.result(configurationOf(plugin, integration))
    if (found._tag === "Success") {
      configured.set(place, found.success)
      return { value: found.success }
    }
    unconfigured.set(place, found.failure)
    yield* Effect.logError("a plugin is not configured: its deliveries wait").pipe(
      Effect.annotateLogs({ plugin: plugin.name, integration, why: found.failure.message })
    )
    return null
  })

  // ---- one attempt

  const succeed = Effect.fnUntraced(function*(desk: HandlerQueue, { events, members }: Job.Job, now: number) {
    desk.breaker.succeeded()
    yield* Metric.update(desk.metrics.settled, members.length)
    for (const { detectedAt } of events) yield* Metric.update(desk.metrics.delay, (now - detectedAt.getTime()) / 1000)
    finishJob(desk, { _tag: "Settled", deliveries: members.map(({ id }) => id) })
  })

  /** One whose every delivery ends the process would end it as often as there are events. */
  const switchOff = Effect.fnUntraced(
    function*({ plugin }: HandlerQueue, at: number) {
      const { deliveries } = services
      const ended = yield* deliveries.deadLetters({
        plugin: plugin.name,
        reason: "ProcessEnded",
        limit: crashesUntilSwitchedOff
      })
      // this one is not settled yet
      if (ended.length + 1 < crashesUntilSwitchedOff) return
      const detail = `the process ended with ${crashesUntilSwitchedOff} of its deliveries`
      yield* deliveries.setSwitch(
        { _tag: "Plugin", plugin: plugin.name, integration: null },
        false,
        { at, command: "plugins.off", target: plugin.name, detail }
      )
      yield* Effect.logError("a plugin was switched off: the process ended again and again with its deliveries").pipe(
        Effect.annotateLogs({ plugin: plugin.name, hint: "mend it, then `rollcall plugins on` and redrive" })
      )
    },
    Effect.catch((error) =>
      Effect.annotateLogs(Effect.logWarning("a plugin could not be switched off"), { why: error.message })
    )
  )

  const fail = Effect.fnUntraced(function*(
    desk: HandlerQueue,
    { members }: Job.Job,
    attempt: Attempt.Attempt,
    startedAt: number,
    failure: Failure,
    retryAfter: number
  ) {
    const { handler, plugin } = desk
    const labels = { plugin: plugin.name, handler: handler.name }
    const first = members[0]
    const number = first.claim
    const follows = outcomeOf(
      members,
      { number, startedAt, failure, requests: attempt.requests },
      handler.options,
      retryAfter
    )
    const stopped = attempt.hasMetWriteStop() && failure.reason === "RateLimited"
    const outcome = stopped && follows._tag === "Retry" ? { ...follows, stopped } : follows
    yield* Metric.update(Metric.withAttributes(failedCounter, { ...labels, reason: failure.reason }), 1)
    if (outcome._tag === "Dead") {
      yield* Metric.update(Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "dead" }), members.length)
      yield* Effect.logWarning("a delivery was given up").pipe(
        Effect.annotateLogs({ ...labels, deadLetter: first.id, reason: failure.reason, why: failure.message })
      )
      if (failure.reason === "ProcessEnded") yield* switchOff(desk, failure.at)
    }
    if (failure.reason === "RateLimited") return finishJob(desk, outcome)
    const wasOpen = desk.breaker.circuitOpen()
    desk.breaker.failed(first.orderingKey, failure.at)
    const openCircuit = desk.breaker.circuitOpen()
    if (openCircuit !== null) releaseQueue(desk)
    if (openCircuit !== null && wasOpen === null) {
      yield* Effect.logWarning("a handler rests: it fails for one record after the other").pipe(
        Effect.annotateLogs({ ...labels, why: failure.message })
      )
    }
    finishJob(desk, outcome)
  })

  const runJob = Effect.fnUntraced(function*(desk: HandlerQueue, job: Job.Job) {
    const { crashes, id, integration } = job.members[0]
    const startedAt = yield* Clock.currentTimeMillis
    const attempt = Job.attemptOf(desk, job, owner, services.deliveries)
    if (crashes > isolateAfterCrashes) {
      return yield* fail(desk, job, attempt, startedAt, processEndedFailure(crashes, startedAt), 0)
    }
    const configuration = yield* configurationFor(desk, integration)
    if (configuration === null) return finishJob(desk, released(job.members))
    const { handler, plugin } = desk
    runningAttempts.add(attempt)
    if (draining) attempt.timer.abandonWaits()
    const timeout = Job.timeoutOf(handler)
    const exit = yield* Job.runHandler(services, attempt, job, configuration.value).pipe(
      containUncaught({ plugin: plugin.name, handler: handler.name, delivery: id }, attempt.timer.allAnswered),
      watchdog.watched({ plugin: plugin.name, handler: handler.name }),
      // all others wait for it
      crashes < isolateAfterCrashes ? identity : Effect.raceFirst(
        Effect.andThen(Effect.delay(Effect.sync(attempt.timer.abandonWaits), timeout), Effect.never)
      ),
      Effect.interruptible,
      Effect.exit
    )
    attempt.end()
    runningAttempts.delete(attempt)
    const now = yield* Clock.currentTimeMillis
    if (Exit.isSuccess(exit)) return yield* succeed(desk, job, now)
    if (attempt.timer.hasAbandoned()) {
      if (draining) return finishJob(desk, released(job.members))
      return yield* fail(desk, job, attempt, startedAt, isolatedWaitFailure(now), CrashIsolation.limits.cooldown)
    }
    if (stopping && Cause.hasInterruptsOnly(exit.cause)) return finishJob(desk, released(job.members))
    yield* fail(
      desk,
      job,
      attempt,
      startedAt,
      failureOf(exit.cause, timeout, now),
      retryAfterOf(exit.cause)
    )
  })

  /** Takes one job after the other from a desk. */
  const runner = (desk: HandlerQueue) =>
    Effect.uninterruptible(Effect.gen(function*() {
      for (let job = desk.queue.shift(); job !== undefined; job = desk.queue.shift()) yield* runJob(desk, job)
      desk.runners--
    }))

  // ---- claims

  const jobsOf = (claimed: ReadonlyArray<Claimed>, events: ReadonlyMap<number, PublishedEvent>) => {
    const jobs: Array<Job.Job> = []
    for (const [first, ...others] of Map.groupBy(claimed, ({ batch, id }) => batch ?? id).values()) {
      if (first === undefined) continue
      const members = [first, ...others] as const
      const found = members.flatMap(({ subject }) => {
        const event = subject._tag === "Event" ? events.get(subject.position) : undefined
        return event === undefined ? [] : [event]
      })
      jobs.push({ members, events: found })
    }
    return jobs
  }

  /** Of what the record, or the integration, was erased meanwhile there is nothing to deliver. */
  const dropErased = (
    claimed: ReadonlyArray<Claimed>,
    events: ReadonlyMap<number, PublishedEvent>,
    absent: UnavailableIntegrations
  ) =>
    claimed.filter(({ id, integration, subject }) => {
      const isThere = !absent.erased.has(integration) && (subject._tag === "Tick" || events.has(subject.position))
      if (!isThere) push({ _tag: "Settled", deliveries: [id] })
      return isThere
    })

  const start = Effect.fnUntraced(function*(
    claimed: ReadonlyArray<Claimed>,
    absent: UnavailableIntegrations
  ): Effect.fn.Return<void, StoreError> {
    if (claimed.length === 0) return
    const positions = new Set(claimed.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const events = yield* Effect.tapError(
      eventCache.load(positions),
      () => Effect.sync(() => push(released(claimed)))
    )
    const there = dropErased(claimed, events, absent)
    const now = yield* Clock.currentTimeMillis
    for (const [key, own] of Map.groupBy(there, ({ handler }) => handler)) {
      const desk = queues.get(key)
      const jobs = jobsOf(own, events)
      // its last attempts may have failed while these were being claimed
      if (desk === undefined || desk.breaker.capacity(jobs.length, desk.inFlight, now) === 0) {
        push(released(own))
        continue
      }
      desk.inFlight += jobs.length
      desk.queue.push(...jobs)
      const runners = Math.min(desk.concurrency - desk.runners, desk.queue.length)
      for (let index = 0; index < runners; index++) {
        desk.runners++
        yield* Effect.forkIn(runner(desk), scope)
      }
    }
  })

  const isOff = (off: ReadonlyArray<Switch>, plugin: string) =>
    off.some((each) => each._tag === "Plugin" && each.plugin === plugin && each.integration === null)

  const exceptFor = (
    off: ReadonlyArray<Switch>,
    plugin: string,
    { removed }: UnavailableIntegrations
  ): ReadonlyArray<string> => [
    ...removed,
    ...off.flatMap((each) =>
      each._tag === "Plugin" && each.plugin === plugin && each.integration !== null ? [each.integration] : []
    ),
    ...[...unconfigured.values()].flatMap((fault) => fault.plugin === plugin ? [fault.integration] : [])
  ]

  /** What was claimed and has not begun goes back where its plugin is off by now. */
  const releaseDisabled = (off: ReadonlyArray<Switch>, absent: UnavailableIntegrations) => {
    for (const desk of queues.values()) {
      const except = isOff(off, desk.plugin.name) ? null : new Set(exceptFor(off, desk.plugin.name, absent))
      for (const job of desk.queue.splice(0)) {
        if (except !== null && !except.has(job.members[0].integration)) desk.queue.push(job)
        else finishJob(desk, released(job.members))
      }
    }
  }

  /** What each handler could take on now. */
  const claimRequestsOf = (
    now: number,
    off: ReadonlyArray<Switch>,
    absent: UnavailableIntegrations,
    asked: CrashIsolation.ClaimMode
  ): ReadonlyArray<ClaimRequest> =>
    [...queues.values()].flatMap((desk): ReadonlyArray<ClaimRequest> => {
      const { breaker, concurrency, batchWindow, handler, inFlight, key, plugin } = desk
      const size = handler.activation._tag === "Batch" ? handler.activation.size : null
      const most = breaker.capacity(
        (size === null ? Math.max(maxHeldPerHandler, concurrency) : concurrency) - inFlight,
        inFlight,
        now
      )
      if (most <= 0 || isOff(off, plugin.name)) return []
      return [{
        handler: key,
        most,
        mostAfterCrash: Math.max(0, concurrency - inFlight),
        isolated: asked === "isolated",
        size,
        excludedIntegrations: exceptFor(off, plugin.name, absent),
        maxLead: maxDueAhead(handler.options, batchWindow)
      }]
    })

  /** While a delivery waits to run alone nothing else is begun, and what has not begun is given back. */
  const planClaim = (now: number, off: ReadonlyArray<Switch>, absent: UnavailableIntegrations): ClaimPlan => {
    const mode = isolation.nextMode(now, isFree())
    if (mode !== "nothing") return { mode, requests: claimRequestsOf(now, off, absent, mode) }
    for (const desk of queues.values()) releaseQueue(desk)
    return { mode, requests: [] }
  }

  /** What came of them. Gives whether to ask again at once. */
  const onClaimed = (now: number, { mode }: ClaimPlan, claimed: ReadonlyArray<Claimed>, found: boolean): boolean =>
    isolation.onClaimed(now, mode, claimed.length > 0, found, isFree())

  return {
    planClaim,
    onClaimed,
    releaseDisabled,
    start,
    /** Not yet settled in the store; `settled` says how many of them, the first ones, are. */
    outcomes: (): ReadonlyArray<AttemptOutcome> => [...outcomes],
    settled: (count: number) => {
      outcomes.splice(0, count)
      if (outcomes.length === 0) ended = Deferred.makeUnsafe()
    },
    /** Returns once there is an outcome, and no more of them come at once: a commit for each would be a commit too many. */
    awaitEnd: Effect.gen(function*() {
      yield* Deferred.await(ended)
      for (let count = 0; outcomes.length > count && count < maxHeldPerHandler * queues.size;) {
        count = outcomes.length
        yield* Effect.yieldNow
      }
    }),
    isIdle: () => outcomes.length === 0 && isFree(),
    /** When a handler that rests is to be tried again; one that may be tried waits for something to try. */
    wakeAt: (now: number): number =>
      Math.min(
        isolation.wakeAt(now),
        ...[...queues.values()].flatMap(({ breaker, inFlight }) => {
          const rest = breaker.circuitOpen()
          return rest === null || inFlight > 0 || rest.until <= now ? [] : [rest.until]
        })
      ),
    /** What runs may go on, unless it waits for its turn at the API; nothing else is begun. */
    drain: () => {
      draining = true
      for (const desk of queues.values()) releaseQueue(desk)
      for (const { timer } of runningAttempts) timer.abandonWaits()
    },
    /** What is interrupted from here on is to be delivered again. */
    stop: () => {
      stopping = true
    },
    status: () =>
      [...queues.values()].map(({ breaker, handler, inFlight, key, plugin, queue }) => ({
        key,
        plugin: plugin.name,
        handler: handler.name,
        running: inFlight - queue.length,
        circuitOpen: breaker.circuitOpen()
      })),
    unconfigured: () => [...unconfigured.values()]
  }
}

export type Worker = ReturnType<typeof make>
