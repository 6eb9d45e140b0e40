/**
 * Runs plugins: creates deliveries if dispatching is placed in this process, and runs the deliveries of the shards that are placed here.
 *
 * Invariants
 * 1. If two processes deliver the same shard, only the one that took it later has any effect   (I10, X16)
 * 2. A store outage loses nothing: attempts that ended during the outage are settled when the store is available again
 *
 * Gotchas
 * - The engine takes ownership of a scope when the scope is placed here. An engine that was replaced must not take the scope again when it
 *   retries. In a fleet it takes the scope again after a while: see `PlacedScopes`.
 * - On shutdown a running attempt gets the rest of its time-out. The next process delivers everything else. When a shard moves to another
 *   process, its attempts have less time: see `PlacedScopes`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import { deliveryScopes, dispatchScope, shardOfScope } from "../../domain/Shard.ts"
import type { Placement } from "../../fleet/Placement.ts"
import type { Plugin } from "../../plugin/Plugin.ts"
import { Source } from "../../source/Source.ts"
import { Deliveries, type HandlerState, type Switch } from "../../store/Deliveries.ts"
import type { ClaimResult } from "../../store/DeliveryClaims.ts"
import type { Owner } from "../../store/Ownership.ts"
import * as Recovery from "../../store/Recovery.ts"
import { Fenced, Store, StoreError } from "../../store/Store.ts"
import * as IntegrationAccounts from "../handler/IntegrationAccounts.ts"
import * as Dispatching from "./Dispatching.ts"
import * as EventCache from "./EventCache.ts"
import * as PlacedScopes from "./PlacedScopes.ts"
import * as Watchdog from "./Watchdog.ts"
import * as Worker from "./Worker.ts"

/** The status of one handler. */
export interface HandlerStatus {
  readonly plugin: string
  readonly handler: string
  /** Deliveries have been created for all events up to this position of the log. */
  readonly position: number
  /** Attempts that are running. */
  readonly running: number
}

/** `waiting`: the store is unavailable. `stopped`: the store cannot be used, or another process delivers. */
export interface DeliveryStatus extends Recovery.Condition {
  /** True if this process creates the deliveries of all shards. In a fleet, one process does. */
  readonly dispatches: boolean
  /** Number of shards whose deliveries this process runs. */
  readonly shards: number
  readonly handlers: ReadonlyArray<HandlerStatus>
  /** Integrations for which a plugin's configuration is incomplete. Their deliveries wait. */
  readonly unconfigured: ReadonlyArray<
    { readonly plugin: string; readonly integration: string; readonly message: string }
  >
  /** Up to this position every delivery has ended, or waits for its next attempt, for its batch to fill, or for an operator. */
  readonly drainedPosition: number
}

type Condition = Pick<DeliveryStatus, "state" | "reason" | "drainedPosition">

export interface Options {
  readonly plugins: ReadonlyArray<Plugin<unknown>>
  /** How long the journal of a settled delivery is kept. */
  readonly retention: Duration.Duration
  /** Returns once the store has the integrations of the configuration. No delivery is attempted before. */
  readonly integrationsReady?: Effect.Effect<void>
  /** Time between two looks for deliveries that another process has created. Default: 250 ms. */
  readonly pollInterval?: Duration.Duration
  /**
   * Whether shards that another process has taken over are taken again while they are placed here. Default: false. In a fleet, that
   * process had been frozen, or does not belong to the fleet.
   */
  readonly retakes?: boolean
}

/** Time between two checks whether a removed integration has been added again, in ms. */
const removedRecheckMillis = 60_000
const nothing: ClaimResult = { claimed: [], next: null, isolatedDue: false, lost: [], circuits: new Map() }

export class DeliveryEngine extends Context.Service<DeliveryEngine, {
  readonly status: Effect.Effect<DeliveryStatus>
  /** Returns once the log is drained up to `position` (see `DeliveryStatus.drainedPosition`), or delivery has stopped. */
  readonly awaitDrained: (position: number) => Effect.Effect<DeliveryStatus>
}>()("rollcall/delivery/DeliveryEngine") {
  /** Delivers in the background for as long as the layer lives. Handlers send their own requests with `HttpClient`. */
  static readonly layer = (
    options: Options
  ): Layer.Layer<DeliveryEngine, never, Store | Deliveries | Source | HttpClient.HttpClient | Placement> =>
    Layer.effect(DeliveryEngine, make(options))
}

const make = Effect.fnUntraced(function*(
  { integrationsReady = Effect.void, plugins, pollInterval = Duration.millis(250), retakes = false, retention }: Options
) {
  const pollMillis = Duration.toMillis(pollInterval)
  const store = yield* Store
  const deliveries = yield* Deliveries
  const services = {
    store,
    journal: deliveries,
    source: yield* Source,
    client: yield* HttpClient.HttpClient,
    accounts: IntegrationAccounts.make(store),
    packageLocks: new Map()
  }
  const eventCache = EventCache.make(store.identity, deliveries)
  const attempts = yield* Scope.make()
  const worker = Worker.make({ ...services, deliveries }, eventCache, yield* Watchdog.make, attempts)
  const status = yield* SubscriptionRef.make<Condition>({ state: "starting", reason: null, drainedPosition: 0 })
  const draining = yield* Latch.make()
  let failures = 0
  let dispatching: Dispatching.Dispatching | null = null
  /** All registered handlers, as last read from the store. */
  let states: ReadonlyArray<HandlerState> = []

  const ifShard = (act: (shard: number) => void) => (scope: string) => {
    if (scope !== dispatchScope) act(shardOfScope(scope))
  }
  const places = PlacedScopes.make(
    { begin: ifShard(worker.leave), interrupt: ifShard(worker.evict), drop: ifShard(worker.drop) },
    retakes
  )

  // ---- status

  /** Every event up to this position is dispatched to all handlers. */
  const dispatchedPosition = () => {
    if (dispatching !== null) return dispatching.position()
    const known = Dispatching.subscriptionsOf(plugins, states)
    return Math.min(...Dispatching.ofEvents(known).map(({ position }) => position), states.length === 0 ? 0 : Infinity)
  }
  const positionOf = (key: number) =>
    dispatching?.positionOf(key) ?? states.find((state) => state.key === key)?.position ?? 0
  const withHandlerDetails = (condition: Condition): DeliveryStatus => ({
    ...condition,
    dispatches: dispatching !== null,
    shards: worker.shards("owned").length,
    handlers: worker.status().map(({ key, ...handler }) => ({ ...handler, position: positionOf(key) })),
    unconfigured: worker.unconfigured().map(({ integration, message, plugin }) => ({ plugin, integration, message }))
  })

  const report = Effect.fnUntraced(function*(error: StoreError | Recovery.Unexpected) {
    const before = yield* SubscriptionRef.get(status)
    const state = error._tag === "StoreError" && error.reason.retryable ? "waiting" : "stopped"
    const reason = error._tag === "StoreError" ? Recovery.describeStoreError(error) : error
    // the store logs its own outages
    if (before.state !== state && state === "stopped") {
      yield* Effect.logError(`delivery stopped: ${reason.message} (${reason.hint})`)
    }
    yield* SubscriptionRef.set(status, yield* Recovery.nextCondition(before, state, reason))
  })

  /** Retries while the store is unavailable, and reports that in the status; fails on an error that is not retryable. */
  const retryAndReport = <A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
    effect.pipe(
      Effect.tap(() => Effect.sync(() => failures = 0)),
      Effect.catch(Effect.fnUntraced(function*(error) {
        yield* report(error)
        yield* Effect.raceFirst(Effect.sleep(Recovery.backoff(failures++)), draining.await)
        return yield* error.reason.retryable && !draining.isOpen() ? retryAndReport(effect) : Effect.fail(error)
      }))
    )

  const updateStatus = Effect.fnUntraced(function*(isDrained: boolean) {
    const shards = places.all().filter(({ scope }) => scope !== dispatchScope)
    const lost = shards.find(({ state }) => state === "lost")
    if (lost?.owner != null && shards.every(({ state }) => state === "lost")) {
      return yield* report(new StoreError({ reason: new Fenced(lost.owner) }))
    }
    const { drainedPosition, state } = yield* SubscriptionRef.get(status)
    if (state === "stopped") yield* Effect.logInfo("delivering again")
    yield* SubscriptionRef.set(status, {
      state: "running",
      reason: null,
      drainedPosition: isDrained ? Math.max(drainedPosition, dispatchedPosition()) : drainedPosition
    })
  })

  // ---- ownership

  /** Another process has taken these scopes over, although they are still placed here: this process was frozen. */
  const lose = Effect.fnUntraced(function*(owners: ReadonlyArray<Owner>) {
    for (const owner of owners) {
      const { scope } = owner
      yield* places.lose(owner)
      if (scope === dispatchScope) dispatching = null
      else worker.drop(shardOfScope(scope))
    }
    if (owners.length === 0) return
    yield* Effect.annotateLogs(Effect.logWarning("another process delivers in place of this one"), {
      scopes: owners.map(({ scope }) => scope).join(" ")
    })
  })

  /** Runs an effect that only the owner of `dispatchScope` may run. Null if another process is the owner now. */
  const asDispatcher = <A>(owner: Owner, effect: Effect.Effect<A, StoreError>): Effect.Effect<A | null, StoreError> =>
    Effect.catchIf(
      effect,
      ({ reason }) => reason._tag === "Fenced" && reason.scope === dispatchScope,
      () => Effect.as(lose([owner]), null)
    )

  const subscribe = (registered: ReadonlyArray<HandlerState>) => {
    for (const subscription of Dispatching.subscriptionsOf(plugins, registered)) worker.subscribe(subscription)
  }

  /** The last epoch of each shard that this process has owned. */
  const lastEpochs = new Map<string, number>()

  /** Takes ownership of the scopes that have been placed here. */
  const takePlacedScopes = Effect.gen(function*() {
    yield* places.take(store.takeOwnerships)
    const owner = places.ownerOf(dispatchScope)
    // the scope may have left and come back in the meantime
    if (owner !== dispatching?.owner) dispatching = null
    if (owner !== null && dispatching === null) {
      const begun = Dispatching.begin({ store, deliveries }, eventCache, owner, { plugins, retention }, attempts)
      dispatching = yield* asDispatcher(owner, begun)
      for (const subscription of dispatching?.subscriptions ?? []) worker.subscribe(subscription)
    }
    const taken = deliveryScopes.flatMap((scope) => {
      const owner = worker.ownsShard(shardOfScope(scope)) ? null : places.ownerOf(scope)
      return owner === null ? [] : [owner]
    })
    if (taken.length === 0) return
    const continued = taken.filter(({ epoch, scope }) => lastEpochs.get(scope) === epoch - 1)
    const lost = yield* deliveries.takeShards(taken, continued, worker.blockedBefore(continued))
    for (const owner of taken) {
      if (lost.includes(owner)) continue
      lastEpochs.set(owner.scope, owner.epoch)
      if (places.ownerOf(owner.scope) === owner) worker.addShard(owner)
    }
    yield* lose(lost)
  })

  /** Settles ended attempts of the shards that are leaving, and lets each shard go once all its attempts have ended. */
  const letGo = Effect.gen(function*() {
    const ended = worker.outcomes("leaving")
    if (ended.length > 0) {
      const owners = worker.shards("leaving").map(({ owner }) => owner)
      const { circuits, lost } = yield* deliveries.settleAndClaim(owners, ended.map(({ outcome }) => outcome), [])
      worker.settled(ended)
      yield* worker.updateCircuits(ended, circuits)
      yield* lose(lost)
    }
    for (const place of places.all()) {
      if (place.state !== "leaving") continue
      const shard = shardOfScope(place.scope)
      if (place.scope !== dispatchScope) {
        if (!worker.hasLeft(shard)) continue
        worker.drop(shard)
      }
      places.leave(place)
    }
  })

  // ---- the loop

  const serve = Effect.gen(function*() {
    let commandsSeen = yield* deliveries.awaitCommand(-1)
    let off: ReadonlyArray<Switch> = yield* retryAndReport(deliveries.switchedOff)
    let statesReadAt = -Infinity
    let isReady = false
    const readiness = yield* Effect.forkIn(
      Effect.andThen(integrationsReady, Effect.sync(() => isReady = true)),
      attempts,
      { startImmediately: true }
    )

    /** Creates deliveries, if that is placed here. Returns whether there may be more to create. */
    const dispatch = Effect.gen(function*() {
      const owner = places.ownerOf(dispatchScope)
      if (owner !== null && dispatching !== null) {
        return (yield* asDispatcher(owner, dispatching.step)) ?? false
      }
      const now = yield* Clock.monotonicTimeNanos
      if (worker.shards("owned").length > 0 && Number(now) - statesReadAt >= pollMillis * 1e6) {
        states = yield* deliveries.handlers
        statesReadAt = Number(now)
        subscribe(states)
      }
      return false
    })

    /** True if the last claim failed and may have been committed nevertheless. */
    let isClaimUncertain = false
    const releaseLostClaims = Effect.gen(function*() {
      const owners = [...worker.shards("owned"), ...worker.shards("leaving")].map(({ owner }) => owner)
      if (owners.length > 0) worker.releaseUnknown(yield* deliveries.running(owners))
      isClaimUncertain = false
    })

    /** Settles ended attempts, then claims and starts due deliveries. Returns when to run next if no event wakes the engine first. */
    const settleAndStart = Effect.fnUntraced(function*(more: boolean) {
      worker.settled(worker.outcomes("dropped"))
      if (isClaimUncertain) yield* releaseLostClaims
      yield* letGo
      const unavailable = yield* services.accounts.unavailable
      const now = yield* Clock.currentTimeMillis
      if (unavailable.removed.size > 0) worker.releaseDisabled(off, unavailable)
      const outcomes = worker.outcomes("owned")
      const owned = worker.shards("owned")
      const plan = draining.isOpen() || !isReady || owned.length === 0 ? null : worker.planClaim(now, off, unavailable)
      const result = owned.length === 0 ? nothing : yield* deliveries.settleAndClaim(
        owned.map(({ owner }) => owner),
        outcomes.map(({ outcome }) => outcome),
        plan?.requests ?? []
      ).pipe(Effect.tapError(() => Effect.sync(() => isClaimUncertain = true)))
      const { circuits, claimed, isolatedDue, lost, next } = result
      worker.settled(outcomes)
      yield* worker.updateCircuits(outcomes, circuits)
      yield* lose(lost)
      yield* worker.start(claimed, unavailable)
      const atOnce = plan !== null && worker.onClaimed(now, plan, claimed, isolatedDue)
      yield* updateStatus(!more && !atOnce && isReady && worker.isIdle() && claimed.length === 0)
      if (atOnce) return now
      const recheckAt = unavailable.removed.size === 0 ? Infinity : now + removedRecheckMillis
      const polls = places.awaitsRetake() || (dispatching === null && owned.length > 0)
      const pollAt = polls ? now + pollMillis : Infinity
      return Math.min(next ?? Infinity, worker.wakeAt(now), dispatching?.wakeAt(now) ?? Infinity, recheckAt, pollAt)
    })

    /** Returns when there may be work. */
    const awaitWork = Effect.fnUntraced(function*(wakeAt: number) {
      const now = yield* Clock.currentTimeMillis
      const timer = wakeAt === Infinity ? Effect.never : Effect.sleep(Duration.millis(Math.max(0, wakeAt - now)))
      yield* Effect.raceAllFirst([
        timer,
        worker.awaitEnd,
        dispatching === null ? Effect.never : dispatching.awaitLog,
        deliveries.awaitCommand(commandsSeen),
        isReady ? Effect.never : Fiber.await(readiness),
        places.awaitChange,
        draining.await
      ])
    })

    /** Applies the switches that operators have changed since the last check. */
    const applySwitches = Effect.gen(function*() {
      const done = yield* deliveries.awaitCommand(-1)
      if (done === commandsSeen) return
      off = yield* deliveries.switchedOff
      commandsSeen = done
      worker.releaseDisabled(off, yield* services.accounts.unavailable)
    })

    while (!draining.isOpen()) {
      yield* retryAndReport(Effect.gen(function*() {
        yield* takePlacedScopes
        const more = yield* dispatch
        const wakeAt = yield* settleAndStart(more)
        yield* more ? Effect.yieldNow : awaitWork(wakeAt)
        yield* applySwitches
      }))
    }
    worker.drain()
    while (!worker.isIdle()) {
      yield* retryAndReport(settleAndStart(true))
      if (!worker.isIdle()) yield* worker.awaitEnd
    }
  })

  yield* places.register([dispatchScope, ...deliveryScopes])
  const finished = yield* serve.pipe(
    Effect.ensuring(Effect.sync(worker.stop)),
    Effect.onExit((exit) => Scope.close(attempts, exit)),
    Effect.ensuring(Effect.sync(places.close)),
    Recovery.failOnDefect,
    // errors of the store have been reported
    Effect.catch((error) => error._tag === "Unexpected" ? report(error) : Effect.void),
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() => Effect.andThen(draining.open, Fiber.await(finished)))

  const awaitStatus = (isReached: (now: Condition) => boolean) =>
    SubscriptionRef.changes(status).pipe(
      Stream.filter(isReached),
      Stream.runHead,
      Effect.flatMap((now) => now._tag === "Some" ? Effect.succeed(now.value) : SubscriptionRef.get(status))
    )
  // A new plugin starts at the newest position: it receives every event that is appended after the layer is built.
  yield* awaitStatus(({ state }) => state !== "starting")

  return DeliveryEngine.of({
    status: Effect.map(SubscriptionRef.get(status), withHandlerDetails),
    awaitDrained: (position) =>
      Effect.map(awaitStatus((now) => now.drainedPosition >= position || now.state === "stopped"), withHandlerDetails)
  })
})
