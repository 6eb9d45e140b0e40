/**
 * Runs claimed deliveries of the shards that this process owns, with a queue for each handler.
 *
 * Invariants
 * 1. Every claimed delivery gets exactly one outcome, even if its attempt is interrupted or its event was erased. There is one exception: if
 *    another process has taken its shard over, the delivery gets no outcome here
 * 2. A handler that is slow or fails does not delay the deliveries of other handlers
 *
 * Gotchas
 * - The worker claims more deliveries than it runs at once, so that each store transaction settles and claims many.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { deliveryScopes } from "../../domain/Shard.ts"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import { isSwitchedOff, type Switch } from "../../store/DeadLetters.ts"
import type { Claimed, ClaimRequest, RunningDelivery } from "../../store/DeliveryClaims.ts"
import type { Owner } from "../../store/State.ts"
import type { StoreError } from "../../store/Store.ts"
import type { UnavailableIntegrations } from "../handler/IntegrationAccounts.ts"
import type { Subscription } from "../handler/Subscription.ts"
import * as AttemptRunner from "./AttemptRunner.ts"
import * as BlockedIntegrations from "./BlockedIntegrations.ts"
import { claimRequestsOf, excludedIntegrations, maxClaimedPerHandler } from "./ClaimRequests.ts"
import * as CrashIsolation from "./CrashIsolation.ts"
import type { OwnedShard } from "./DeliveryShards.ts"
import * as DeliveryShards from "./DeliveryShards.ts"
import * as EndedJobs from "./EndedJobs.ts"
import type { OwnedOutcome } from "./EndedJobs.ts"
import type { EventCache } from "./EventCache.ts"
import * as HandlerQueue from "./HandlerQueue.ts"
import type { OwnedJob } from "./HandlerQueue.ts"
import type { Watchdog } from "./Watchdog.ts"

/** The next claim: a request for each handler that can take more deliveries. */
interface ClaimPlan {
  readonly mode: CrashIsolation.ClaimMode
  readonly requests: ReadonlyArray<ClaimRequest>
}

interface OwnedClaim {
  readonly owned: OwnedShard
  readonly claim: Claimed
}

/**
 * A job for each delivery, or for each batch of deliveries that were claimed together. A handler that was changed, and takes single events
 * now, may have deliveries that are in a batch.
 */
const jobsOf = (
  { handler: { activation } }: Subscription,
  claimed: ReadonlyArray<OwnedClaim>,
  events: ReadonlyMap<number, PublishedEvent>
) => {
  const jobs: Array<OwnedJob> = []
  const jobOf = ({ claim: { batch, id } }: OwnedClaim) => activation._tag === "Batch" ? batch ?? id : id
  for (const own of Map.groupBy(claimed, jobOf).values()) {
    const [first, ...others] = own.map(({ claim }) => claim)
    const owned = own[0]?.owned
    if (first === undefined || owned === undefined) continue
    const members = [first, ...others] as const
    const found = members.flatMap(({ subject }) => {
      const event = subject._tag === "Event" ? events.get(subject.position) : undefined
      return event === undefined ? [] : [event]
    })
    jobs.push({ members, events: found, owned })
  }
  return jobs
}

export const make = (
  services: AttemptRunner.Services,
  eventCache: EventCache,
  watchdog: Watchdog,
  scope: Scope.Scope
) => {
  const queues = new Map<number, HandlerQueue.HandlerQueue>()
  const subscribe = (subscription: Subscription) => {
    if (!queues.has(subscription.key)) queues.set(subscription.key, HandlerQueue.make(subscription))
  }
  const shards = DeliveryShards.make()
  const ended = EndedJobs.make()
  const { push, releaseQueue, releaseQueued } = ended
  const blocked = BlockedIntegrations.make()
  const attempts = AttemptRunner.make(services, watchdog, ended, blocked)
  const { unconfigured } = attempts
  const isolation = CrashIsolation.make()
  let ownsAll = false
  /** The claimed deliveries that the store has not settled yet, each with the shard for which it was claimed. */
  const known = new Map<number, OwnedShard>()

  const isFree = () => [...queues.values()].every(({ inFlight }) => inFlight === 0)
  const releaseQueues = () => {
    for (const handlerQueue of queues.values()) releaseQueue(handlerQueue)
  }
  const releaseJobsOf = (owned: OwnedShard) => {
    for (const handlerQueue of queues.values()) releaseQueued(handlerQueue, (job) => job.owned === owned)
  }

  /** Runs the queued jobs of a handler one after another. */
  const runner = (handlerQueue: HandlerQueue.HandlerQueue) =>
    Effect.uninterruptible(Effect.gen(function*() {
      for (let job = handlerQueue.queued.shift(); job !== undefined; job = handlerQueue.queued.shift()) {
        yield* attempts.run(handlerQueue, job)
      }
      handlerQueue.runners--
    }))

  /** Settles deliveries whose record or integration has been erased: there is no event to deliver. */
  const dropErased = (
    claimed: ReadonlyArray<OwnedClaim>,
    events: ReadonlyMap<number, PublishedEvent>,
    unavailable: UnavailableIntegrations
  ) =>
    claimed.filter(({ claim: { id, integration, subject }, owned }) => {
      const exists = !unavailable.erased.has(integration) && (subject._tag === "Tick" || events.has(subject.position))
      if (!exists) push(owned, { _tag: "Settled", deliveries: [id] })
      return exists
    })

  const releaseClaims = (claimed: ReadonlyArray<OwnedClaim>) => {
    for (const { claim, owned } of claimed) push(owned, EndedJobs.released([claim]))
  }

  /** Releases the queued deliveries of a handler if its plugin has been switched off, or if their integration has been removed. */
  const releaseDisabledOf = (
    handlerQueue: HandlerQueue.HandlerQueue,
    off: ReadonlyArray<Switch>,
    unavailable: UnavailableIntegrations
  ) => {
    const except = isSwitchedOff(off, handlerQueue.plugin.name, null)
      ? null
      : new Set(excludedIntegrations(handlerQueue.plugin, { off, unavailable, unconfigured: unconfigured() }))
    releaseQueued(handlerQueue, ({ members }) => except === null || except.has(members[0].integration))
  }

  const releaseDisabled = (off: ReadonlyArray<Switch>, unavailable: UnavailableIntegrations) => {
    for (const handlerQueue of queues.values()) releaseDisabledOf(handlerQueue, off, unavailable)
  }

  const start = Effect.fnUntraced(function*(
    claimed: ReadonlyArray<Claimed>,
    off: ReadonlyArray<Switch>,
    unavailable: UnavailableIntegrations
  ): Effect.fn.Return<void, StoreError> {
    if (claimed.length === 0) return
    const ownClaims = claimed.flatMap((claim): ReadonlyArray<OwnedClaim> => {
      const owned = shards.of(claim.integration)
      // if the shard has moved in the meantime, its next owner makes the delivery due again
      return owned === undefined ? [] : [{ claim, owned }]
    })
    for (const { claim, owned } of ownClaims) known.set(claim.id, owned)
    const positions = new Set(claimed.flatMap(({ subject }) => subject._tag === "Event" ? [subject.position] : []))
    const events = yield* Effect.tapError(eventCache.load(positions), () => Effect.sync(() => releaseClaims(ownClaims)))
    const remaining = dropErased(ownClaims, events, unavailable)
    const now = yield* Clock.currentTimeMillis
    for (const [key, own] of Map.groupBy(remaining, ({ claim }) => claim.handler)) {
      const handlerQueue = queues.get(key)
      // the circuit may have opened while these deliveries were being claimed
      if (handlerQueue?.breaker.permits(handlerQueue.inFlight, now) !== true) {
        releaseClaims(own)
        continue
      }
      const jobs = jobsOf(handlerQueue, own, events)
      for (const { owned } of jobs) owned.jobs++
      handlerQueue.inFlight += jobs.length
      handlerQueue.queued.push(...jobs)
      releaseQueued(handlerQueue, ({ owned }) => owned.state !== "owned")
      releaseDisabledOf(handlerQueue, off, unavailable)
      const runners = Math.min(handlerQueue.concurrency - handlerQueue.runners, handlerQueue.queued.length)
      for (let index = 0; index < runners; index++) {
        handlerQueue.runners++
        yield* Effect.forkIn(runner(handlerQueue), scope)
      }
    }
  })

  /** Plans the next claim. While an isolated delivery waits for the others to end, nothing is claimed and all queues are released. */
  const planClaim = (now: number, off: ReadonlyArray<Switch>, unavailable: UnavailableIntegrations): ClaimPlan => {
    const ownedAll = ownsAll
    ownsAll = shards.all("owned").length === deliveryScopes.length
    // The store counts queued deliveries as running, so they would use up the concurrency that the handler has in all processes together.
    if (ownedAll && !ownsAll) releaseQueues()
    const mode = isolation.nextMode(now, isFree())
    if (mode === "nothing") {
      releaseQueues()
      return { mode, requests: [] }
    }
    const disabled = { off, unavailable, unconfigured: unconfigured() }
    return { mode, requests: claimRequestsOf(queues.values(), disabled, (handler) => blocked.of(handler, now), mode) }
  }

  /** Takes the claimed deliveries. Returns whether to claim again at once. */
  const onClaimed = (
    now: number,
    { mode }: ClaimPlan,
    claimed: ReadonlyArray<Claimed>,
    isolatedDue: boolean
  ): boolean => isolation.onClaimed(now, mode, claimed.length > 0, isolatedDue, isFree())

  /** Starts nothing more of the shard, so that it can move. Its running attempts continue, unless they wait for a request slot. */
  const handOver = (shard: number) => {
    const owned = shards.get(shard)
    if (owned === undefined) return
    owned.state = "leaving"
    releaseJobsOf(owned)
    attempts.endWaits(owned)
  }

  /** Interrupts the running attempts of the shard; they are released. */
  const interrupt = (shard: number) => void shards.get(shard)?.interrupted.openUnsafe()

  /** Another process owns the shard, or may take it from now on: its attempts are interrupted, and nothing is settled. */
  const lose = (shard: number) => {
    const owned = shards.get(shard)
    if (owned === undefined) return
    shards.remove(shard)
    owned.state = "lost"
    owned.interrupted.openUnsafe()
    releaseJobsOf(owned)
  }

  return {
    subscribe,
    planClaim,
    onClaimed,
    releaseDisabled,
    start,
    addShard: (owner: Owner) => {
      attempts.taken(owner)
      shards.add(owner)
    },
    /** The deliveries whose attempts blocked the process until it lost the shards that these owners have taken again. */
    blockedBefore: attempts.blockedBefore,
    shards: (state: OwnedShard["state"]) => shards.all(state),
    handOver,
    interrupt,
    lose,
    /** Hands over every shard, because this process stops. */
    handOverAll: () => shards.numbers().forEach(handOver),
    /** From now on, attempts that are interrupted are released, so that the next process delivers them. */
    interruptAll: () => shards.numbers().forEach(interrupt),
    /** Removes a shard that is handed over, once all its attempts have ended and their outcomes are settled. Returns whether it was removed. */
    removeIfIdle: (shard: number): boolean => {
      const owned = shards.get(shard)
      if (owned === undefined) return true
      if (owned.jobs > 0 || ended.all().some((outcome) => outcome.owned === owned)) return false
      shards.remove(shard)
      return true
    },
    ownsShard: (shard: number): boolean => shards.get(shard) !== undefined,
    /**
     * The outcomes of shards in this state that `settled` has not removed yet, oldest first. The store settles no outcome of a lost shard.
     * Such an outcome only wakes the engine, which can then claim for the job that has ended.
     */
    outcomes: (state: OwnedShard["state"]): ReadonlyArray<OwnedOutcome> =>
      ended.all().filter(({ owned }) => owned.state === state),
    updateCircuits: EndedJobs.circuitUpdate(queues, ended),
    settled: (outcomes: ReadonlyArray<OwnedOutcome>) => {
      ended.settled(outcomes)
      for (const { owned, outcome } of outcomes) {
        for (const id of outcome.deliveries) if (known.get(id) === owned) known.delete(id)
      }
    },
    /** Releases deliveries that are running in the store, but were never started here: the response of their claim was lost. */
    releaseUnknown: (running: ReadonlyArray<RunningDelivery>) => {
      for (const { id, shard } of running) {
        const owned = shards.get(shard)
        if (owned !== undefined && known.get(id) !== owned) push(owned, { _tag: "Released", deliveries: [id] })
      }
    },
    /** Returns once there are outcomes and no further one follows immediately, so that one commit settles many. */
    awaitEnd: Effect.suspend(() => ended.awaitSome(maxClaimedPerHandler * queues.size)),
    /** Whether no delivery is queued or running. */
    isFree,
    /**
     * Whether every handler of events has claimed as much as it may, and no other process could claim more: further deliveries could only
     * wait in the store.
     */
    isFull: () =>
      ownsAll &&
      [...queues.values()].every(({ handler, inFlight }) =>
        handler.activation._tag === "Tick" || inFlight >= maxClaimedPerHandler
      ),
    isIdle: () => ended.all().length === 0 && isFree(),
    /** When isolation changes, or deliveries that waited for the API are tried again. */
    wakeAt: (now: number) => Math.min(isolation.wakeAt(now), blocked.wakeAt(now)),
    unconfigured
  }
}

export type Worker = ReturnType<typeof make>
