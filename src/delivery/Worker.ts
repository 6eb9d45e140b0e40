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
import { configurationOf, type Unconfigured } from "../plugin/Configured.ts"
import type { Published } from "../plugin/Reception.ts"
import { aloneAfter, type Claimed, type Failure, type Outcome, type Switch, type Want } from "../store/Deliveries.ts"
import type { Owner, StoreError } from "../store/Store.ts"
import type { Absent } from "./Accounts.ts"
import * as Alone from "./Alone.ts"
import type * as Attempt from "./Attempt.ts"
import * as Breaker from "./Breaker.ts"
import { contained } from "./Containment.ts"
import { failureOf, processEnded, retryAfterOf, waitedAlone } from "./Failing.ts"
import * as Job from "./Job.ts"
import type * as Provision from "./Provision.ts"
import type { Reading } from "./Reading.ts"
import { farthest, outcomeOf } from "./Retry.ts"
import type { Subscription } from "./Subscription.ts"
import type { Watchdog } from "./Watchdog.ts"

const usualConcurrency = 4
/** Deliveries of a plugin with which the process ended: after so many that are dead letters it is switched off. */
const mostEnds = 3
/** Deliveries that a handler holds at most. */
const ahead = 256

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
interface Wanted {
  readonly asked: Alone.Asked
  readonly wants: ReadonlyArray<Want>
}

/** What is at hand for one handler. */
interface Desk extends Subscription {
  readonly concurrency: number
  readonly breaker: Breaker.Breaker
  readonly queue: Array<Job.Job>
  runners: number
  /** Jobs, queued or under way, that have no outcome yet. */
  held: number
  readonly metrics: {
    readonly settled: Metric.Metric<number, unknown>
    readonly delay: Metric.Metric<number, unknown>
  }
}

export const make = (
  services: Provision.Services,
  reading: Reading,
  watchdog: Watchdog,
  owner: Owner,
  subscriptions: ReadonlyArray<Subscription>,
  scope: Scope.Scope
) => {
  const desks = new Map(subscriptions.map((subscription): [number, Desk] => {
    const { handler, key, plugin } = subscription
    const labels = { plugin: plugin.name, handler: handler.name }
    return [key, {
      ...subscription,
      concurrency: handler.options.concurrency ?? usualConcurrency,
      breaker: Breaker.make(),
      queue: [],
      runners: 0,
      held: 0,
      metrics: {
        settled: Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "settled" }),
        delay: Metric.withAttributes(delayHistogram, labels)
      }
    }]
  }))
  const outcomes: Array<Outcome> = []
  const unconfigured = new Map<string, Unconfigured>()
  const configured = new Map<string, unknown>()
  let ended = Deferred.makeUnsafe<void>()
  let stopping = false
  const alone = Alone.make()
  let draining = false
  const underWay = new Set<Attempt.Attempt>()

  const isFree = () => [...desks.values()].every(({ held }) => held === 0)
  const push = (outcome: Outcome) => {
    outcomes.push(outcome)
    Deferred.doneUnsafe(ended, Exit.void)
  }
  const released = (members: ReadonlyArray<Claimed>): Outcome => ({
    _tag: "Released",
    deliveries: members.map(({ id }) => id)
  })
  const conclude = (desk: Desk, outcome: Outcome) => {
    desk.held--
    push(outcome)
  }
  const clear = (desk: Desk) => {
    for (const { members } of desk.queue.splice(0)) conclude(desk, released(members))
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

  const succeed = Effect.fnUntraced(function*(desk: Desk, { events, members }: Job.Job, now: number) {
    desk.breaker.succeeded()
    yield* Metric.update(desk.metrics.settled, members.length)
    for (const { detectedAt } of events) yield* Metric.update(desk.metrics.delay, (now - detectedAt.getTime()) / 1000)
    conclude(desk, { _tag: "Settled", deliveries: members.map(({ id }) => id) })
  })

  /** One whose every delivery ends the process would end it as often as there are events. */
  const switchOff = Effect.fnUntraced(
    function*({ plugin }: Desk, at: number) {
      const { deliveries } = services
      const ended = yield* deliveries.deadLetters({ plugin: plugin.name, reason: "ProcessEnded", limit: mostEnds })
      // this one is not settled yet
      if (ended.length + 1 < mostEnds) return
      const detail = `the process ended with ${mostEnds} of its deliveries`
      yield* deliveries.set(
        { _tag: "Plugin", plugin: plugin.name, integration: null },
        false,
        { at, act: "plugins.off", target: plugin.name, detail }
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
    desk: Desk,
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
      { number, startedAt, failure, asked: attempt.asked },
      handler.options,
      retryAfter
    )
    const stopped = attempt.metStop() && failure.reason === "RateLimited"
    const outcome = stopped && follows._tag === "Again" ? { ...follows, stopped } : follows
    yield* Metric.update(Metric.withAttributes(failedCounter, { ...labels, reason: failure.reason }), 1)
    if (outcome._tag === "Dead") {
      yield* Metric.update(Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "dead" }), members.length)
      yield* Effect.logWarning("a delivery was given up").pipe(
        Effect.annotateLogs({ ...labels, deadLetter: first.id, reason: failure.reason, why: failure.message })
      )
      if (failure.reason === "ProcessEnded") yield* switchOff(desk, failure.at)
    }
    if (failure.reason === "RateLimited") return conclude(desk, outcome)
    const rested = desk.breaker.resting()
    desk.breaker.failed(first.lane, failure.at)
    const resting = desk.breaker.resting()
    if (resting !== null) clear(desk)
    if (resting !== null && rested === null) {
      yield* Effect.logWarning("a handler rests: it fails for one record after the other").pipe(
        Effect.annotateLogs({ ...labels, why: failure.message })
      )
    }
    conclude(desk, outcome)
  })

  const run = Effect.fnUntraced(function*(desk: Desk, job: Job.Job) {
    const { crashes, id, integration } = job.members[0]
    const startedAt = yield* Clock.currentTimeMillis
    const attempt = Job.attemptOf(desk, job, owner, services.deliveries)
    if (crashes > aloneAfter) return yield* fail(desk, job, attempt, startedAt, processEnded(crashes, startedAt), 0)
    const configuration = yield* configurationFor(desk, integration)
    if (configuration === null) return conclude(desk, released(job.members))
    const { handler, plugin } = desk
    underWay.add(attempt)
    if (draining) attempt.time.giveUp()
    const timeout = Job.timeoutOf(handler)
    const exit = yield* Job.run(services, attempt, job, configuration.value).pipe(
      contained({ plugin: plugin.name, handler: handler.name, delivery: id }, attempt.time.answered),
      watchdog.watched({ plugin: plugin.name, handler: handler.name }),
      // all others wait for it
      crashes < aloneAfter ? identity : Effect.raceFirst(
        Effect.andThen(Effect.delay(Effect.sync(attempt.time.giveUp), timeout), Effect.never)
      ),
      Effect.interruptible,
      Effect.exit
    )
    attempt.end()
    underWay.delete(attempt)
    const now = yield* Clock.currentTimeMillis
    if (Exit.isSuccess(exit)) return yield* succeed(desk, job, now)
    if (attempt.time.gaveUp()) {
      if (draining) return conclude(desk, released(job.members))
      return yield* fail(desk, job, attempt, startedAt, waitedAlone(now), Alone.patience.rest)
    }
    if (stopping && Cause.hasInterruptsOnly(exit.cause)) return conclude(desk, released(job.members))
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
  const runner = (desk: Desk) =>
    Effect.uninterruptible(Effect.gen(function*() {
      for (let job = desk.queue.shift(); job !== undefined; job = desk.queue.shift()) yield* run(desk, job)
      desk.runners--
    }))

  // ---- claims

  const jobsOf = (claimed: ReadonlyArray<Claimed>, events: ReadonlyMap<number, Published>) => {
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
    events: ReadonlyMap<number, Published>,
    absent: Absent
  ) =>
    claimed.filter(({ id, integration, subject }) => {
      const isThere = !absent.erased.has(integration) && (subject._tag === "Tick" || events.has(subject.position))
      if (!isThere) push({ _tag: "Settled", deliveries: [id] })
      return isThere
    })

  const start = Effect.fnUntraced(function*(
    claimed: ReadonlyArray<Claimed>,
    absent: Absent
  ): Effect.fn.Return<void, StoreError> {
    if (claimed.length === 0) return
    const positions = new Set(claimed.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const events = yield* Effect.tapError(
      reading.recall(positions),
      () => Effect.sync(() => push(released(claimed)))
    )
    const there = dropErased(claimed, events, absent)
    const now = yield* Clock.currentTimeMillis
    for (const [key, own] of Map.groupBy(there, ({ handler }) => handler)) {
      const desk = desks.get(key)
      const jobs = jobsOf(own, events)
      // its last attempts may have failed while these were being claimed
      if (desk === undefined || desk.breaker.room(jobs.length, desk.held, now) === 0) {
        push(released(own))
        continue
      }
      desk.held += jobs.length
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

  const exceptFor = (off: ReadonlyArray<Switch>, plugin: string, { removed }: Absent): ReadonlyArray<string> => [
    ...removed,
    ...off.flatMap((each) =>
      each._tag === "Plugin" && each.plugin === plugin && each.integration !== null ? [each.integration] : []
    ),
    ...[...unconfigured.values()].flatMap((fault) => fault.plugin === plugin ? [fault.integration] : [])
  ]

  /** What was claimed and has not begun goes back where its plugin is off by now. */
  const giveBack = (off: ReadonlyArray<Switch>, absent: Absent) => {
    for (const desk of desks.values()) {
      const except = isOff(off, desk.plugin.name) ? null : new Set(exceptFor(off, desk.plugin.name, absent))
      for (const job of desk.queue.splice(0)) {
        if (except !== null && !except.has(job.members[0].integration)) desk.queue.push(job)
        else conclude(desk, released(job.members))
      }
    }
  }

  /** What each handler could take on now. */
  const wantsOf = (now: number, off: ReadonlyArray<Switch>, absent: Absent, asked: Alone.Asked): ReadonlyArray<Want> =>
    [...desks.values()].flatMap((desk): ReadonlyArray<Want> => {
      const { breaker, concurrency, gathering, handler, held, key, plugin } = desk
      const size = handler.occasion._tag === "Batch" ? handler.occasion.size : null
      const most = breaker.room((size === null ? Math.max(ahead, concurrency) : concurrency) - held, held, now)
      if (most <= 0 || isOff(off, plugin.name)) return []
      return [{
        handler: key,
        most,
        careful: Math.max(0, concurrency - held),
        alone: asked === "one that must run alone",
        size,
        except: exceptFor(off, plugin.name, absent),
        farthest: farthest(handler.options, gathering)
      }]
    })

  /** While a delivery waits to run alone nothing else is begun, and what has not begun is given back. */
  const wants = (now: number, off: ReadonlyArray<Switch>, absent: Absent): Wanted => {
    const asked = alone.ask(now, isFree())
    if (asked !== "nothing") return { asked, wants: wantsOf(now, off, absent, asked) }
    for (const desk of desks.values()) clear(desk)
    return { asked, wants: [] }
  }

  /** What came of them. Gives whether to ask again at once. */
  const turned = (now: number, { asked }: Wanted, claimed: ReadonlyArray<Claimed>, found: boolean): boolean =>
    alone.answer(now, asked, claimed.length > 0, found, isFree())

  return {
    wants,
    turned,
    giveBack,
    start,
    /** Not yet settled in the store; `settled` says how many of them, the first ones, are. */
    outcomes: (): ReadonlyArray<Outcome> => [...outcomes],
    settled: (count: number) => {
      outcomes.splice(0, count)
      if (outcomes.length === 0) ended = Deferred.makeUnsafe()
    },
    /** Returns once there is an outcome, and no more of them come at once: a commit for each would be a commit too many. */
    awaitEnd: Effect.gen(function*() {
      yield* Deferred.await(ended)
      for (let count = 0; outcomes.length > count && count < ahead * desks.size;) {
        count = outcomes.length
        yield* Effect.yieldNow
      }
    }),
    isIdle: () => outcomes.length === 0 && isFree(),
    /** When a handler that rests is to be tried again; one that may be tried waits for something to try. */
    wakeAt: (now: number): number =>
      Math.min(
        alone.wakeAt(now),
        ...[...desks.values()].flatMap(({ breaker, held }) => {
          const rest = breaker.resting()
          return rest === null || held > 0 || rest.until <= now ? [] : [rest.until]
        })
      ),
    /** What runs may go on, unless it waits for its turn at the API; nothing else is begun. */
    drain: () => {
      draining = true
      for (const desk of desks.values()) clear(desk)
      for (const { time } of underWay) time.giveUp()
    },
    /** What is interrupted from here on is to be delivered again. */
    stop: () => {
      stopping = true
    },
    status: () =>
      [...desks.values()].map(({ breaker, handler, held, key, plugin, queue }) => ({
        key,
        plugin: plugin.name,
        handler: handler.name,
        running: held - queue.length,
        resting: breaker.resting()
      })),
    unconfigured: () => [...unconfigured.values()]
  }
}

export type Worker = ReturnType<typeof make>
