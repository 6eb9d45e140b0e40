/**
 * Runs the handlers of claimed deliveries, one attempt at a time for each job, and records how each attempt ended.
 *
 * Invariants
 * 1. Every job that runs gets exactly one outcome, even if its attempt is interrupted
 *
 * Gotchas
 * - A job is released, and not failed, if it could not run to its end for a reason that is not its own: its shard is handed over, its
 *   plugin is not configured, or the API accepts no requests of its handler in the integration.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import type * as Result from "effect/Result"
import { configurationOf, type IncompleteConfiguration } from "../../plugin/PluginConfiguration.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import { isolateAfterCrashes } from "../../store/Delivery.ts"
import type { Owner } from "../../store/State.ts"
import type * as Attempt from "../handler/Attempt.ts"
import {
  blockedOf,
  failureOf,
  isolatedWaitFailure,
  processEndedFailure,
  retryAfterOf,
  TimedOut
} from "../handler/AttemptFailure.ts"
import type * as HandlerContext from "../handler/HandlerContext.ts"
import * as Job from "../handler/Job.ts"
import type { Subscription } from "../handler/Subscription.ts"
import * as AttemptResults from "./AttemptResults.ts"
import type { BlockedIntegrations } from "./BlockedIntegrations.ts"
import type { CountedAttempts } from "./CountedAttempts.ts"
import * as CrashIsolation from "./CrashIsolation.ts"
import type { OwnedShard } from "./DeliveryShards.ts"
import type { EndedJobs } from "./EndedJobs.ts"
import type { HandlerQueue, OwnedJob } from "./HandlerQueue.ts"
import { containUncaught } from "./UncaughtErrors.ts"
import type { Watchdog } from "./Watchdog.ts"

export type Services = HandlerContext.Services & {
  readonly deliveries: Pick<Deliveries["Service"], "deadLetters" | "setSwitch">
  readonly counted: CountedAttempts
}

/** The configurations of plugins in integrations, each decoded once. */
const makeConfigurations = () => {
  /** The configurations by plugin and integration. */
  const configurations = new Map<string, Result.Result<unknown, IncompleteConfiguration>>()

  /** If the configuration is incomplete, the deliveries wait for a process with a complete one. */
  const decode = Effect.fnUntraced(function*({ plugin }: Subscription, integration: string, key: string) {
    const found = yield* Effect.result(configurationOf(plugin, integration))
    configurations.set(key, found)
    if (found._tag === "Failure") {
      yield* Effect.logError("plugin configuration is incomplete: its deliveries in this integration wait").pipe(
        Effect.annotateLogs({ plugin: plugin.name, integration, why: found.failure.message })
      )
    }
    return found
  })

  const configurationFor = (subscription: Subscription, integration: string) => {
    const key = `${subscription.plugin.name} in ${integration}`
    const known = configurations.get(key)
    return known === undefined ? decode(subscription, integration, key) : Effect.succeed(known)
  }

  const unconfigured = (): ReadonlyArray<IncompleteConfiguration> => Arr.getFailures(configurations.values())

  return { configurationFor, unconfigured }
}

/** Whether `after` follows directly on `before`: no process owned the scope in between. */
const continues = (after: Owner, before: Owner): boolean =>
  after.scope === before.scope && after.epoch === before.epoch + 1

/**
 * The deliveries whose attempts blocked this process: while they computed without yielding, it could not renew the locks of its shards.
 * If the process loses such a shard and takes it again, with no other owner in between, these deliveries count a crash. Without that, they
 * would be repeated without an end.
 */
const makeBlocking = () => {
  /** By id, with the shard as it was owned when the attempt ran. */
  const blocking = new Map<number, OwnedShard>()

  return {
    add: (ids: ReadonlyArray<number>, owned: OwnedShard) => {
      for (const id of ids) blocking.set(id, owned)
    },
    /** An attempt has ended although it blocked the process. If it was interrupted with its shard, it stays noted. */
    ended: (ids: ReadonlyArray<number>, owned: OwnedShard) => {
      if (owned.interrupted.isOpen()) return
      for (const id of ids) if (blocking.get(id) === owned) blocking.delete(id)
    },
    /** Those that ran in the term on which the term of one of `owners` follows directly. */
    before: (owners: ReadonlyArray<Owner>): ReadonlyArray<number> =>
      [...blocking].flatMap(([id, { owner }]) => owners.some((after) => continues(after, owner)) ? [id] : []),
    /** Call when the shard has been taken. */
    taken: ({ scope }: Owner) => {
      for (const [id, { owner }] of blocking) if (owner.scope === scope) blocking.delete(id)
    }
  }
}

export const make = (services: Services, watchdog: Watchdog, ended: EndedJobs, blocked: BlockedIntegrations) => {
  const { configurationFor, unconfigured } = makeConfigurations()
  const blocking = makeBlocking()
  const { fail, succeed } = AttemptResults.make(services, ended)
  const running = new Map<Attempt.Attempt, OwnedShard>()

  const run = Effect.fnUntraced(function*(handlerQueue: HandlerQueue, job: OwnedJob) {
    const { owned } = job
    const { crashes, id, integration } = job.members[0]
    const startedAt = yield* Clock.currentTimeMillis
    // another delivery may have met the block since this one was claimed
    if (blocked.has(handlerQueue.key, integration, startedAt)) return ended.release(handlerQueue, job)
    const attempt = Job.attemptOf(handlerQueue, job, owned.owner, services.journal)
    if (crashes > isolateAfterCrashes) {
      return yield* fail(handlerQueue, job, attempt, startedAt, processEndedFailure(crashes, startedAt), 0)
    }
    const configuration = yield* configurationFor(handlerQueue, integration)
    // the shard may have been handed over since the delivery was claimed
    if (configuration._tag === "Failure" || owned.state !== "owned") return ended.release(handlerQueue, job)
    const { handler, plugin } = handlerQueue
    running.set(attempt, owned)
    const timeout = Job.timeoutOf(handler)
    const members = job.members.map(({ id }) => id)
    const noteBlocking = () => {
      if (running.has(attempt)) blocking.add(members, owned)
    }
    const exit = yield* Job.runHandler(services, attempt, job, configuration.success).pipe(
      containUncaught({ plugin: plugin.name, handler: handler.name, delivery: id }, {
        writesDone: attempt.timer.writesDone,
        limit: Effect.raceFirst(
          attempt.timer.limit(timeout, () => new TimedOut()),
          Effect.andThen(owned.interrupted.await, Effect.interrupt)
        )
      }),
      Job.inDeliverySpan(handlerQueue, job),
      watchdog.watched({ plugin: plugin.name, handler: handler.name }, noteBlocking),
      // all other deliveries wait for an isolated one, so its waits end at its time-out
      crashes < isolateAfterCrashes ? identity : Effect.raceFirst(
        Effect.andThen(Effect.delay(Effect.sync(() => attempt.timer.endWaits()), timeout), Effect.never)
      ),
      Effect.interruptible,
      Effect.exit
    )
    attempt.end()
    running.delete(attempt)
    blocking.ended(members, owned)
    const now = yield* Clock.currentTimeMillis
    if (Exit.isSuccess(exit)) return yield* succeed(handlerQueue, job, now)
    if (attempt.timer.hasEndedWait()) {
      if (owned.state !== "owned") return ended.release(handlerQueue, job)
      const { cooldown } = CrashIsolation.limits
      return yield* fail(handlerQueue, job, attempt, startedAt, isolatedWaitFailure(now), cooldown)
    }
    if (owned.interrupted.isOpen() && Cause.hasInterruptsOnly(exit.cause)) return ended.release(handlerQueue, job)
    const failure = failureOf(exit.cause, timeout, now)
    const block = blockedOf(exit.cause)
    if (block !== null && blocked.add(handlerQueue.key, integration, block, now)) {
      yield* Effect.logWarning("deliveries wait: the API accepts no requests").pipe(
        Effect.annotateLogs({ plugin: plugin.name, handler: handler.name, integration, why: failure.message })
      )
    }
    yield* fail(handlerQueue, job, attempt, startedAt, failure, retryAfterOf(exit.cause))
  })

  return {
    run,
    /** The plugins and integrations whose configuration is incomplete. */
    unconfigured,
    /** The running attempts of the shard no longer wait for request slots. */
    endWaits: (owned: OwnedShard) => {
      for (const [{ timer }, of] of running) if (of === owned) timer.endWaits()
    },
    /** The deliveries whose attempts blocked the process until it lost the shards that these owners have taken again. */
    blockedBefore: blocking.before,
    /** Call when the shard has been taken. */
    taken: blocking.taken
  }
}
