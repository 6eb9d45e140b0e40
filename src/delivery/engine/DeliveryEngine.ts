/**
 * Runs plugins: creates deliveries if dispatching is placed in this process, and runs the deliveries of the shards that are placed here.
 *
 * Invariants
 * 1. A store outage loses nothing: attempts that ended during the outage are settled when the store is available again
 *
 * Gotchas
 * - Without a fleet, a process that stops gives running attempts the rest of their time-out. In a fleet, the placement stops first and moves the shards
 *   to other processes, so attempts have only about 1.5 seconds: see `PlacedScopes`. Deliveries that did not end in time are delivered by the
 *   next owner.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { Placement } from "../../fleet/Placement.ts"
import { Source } from "../../source/Source.ts"
import type { Switch } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import type { HandlerState } from "../../store/Delivery.ts"
import type { ClaimResult } from "../../store/DeliveryClaims.ts"
import * as Recovery from "../../store/Recovery.ts"
import { Fenced, Store, StoreError } from "../../store/Store.ts"
import * as IntegrationAccounts from "../handler/IntegrationAccounts.ts"
import * as CountedAttempts from "./CountedAttempts.ts"
import * as Dispatching from "./Dispatching.ts"
import type { DeliveryStatus } from "./EngineStatus.ts"
import * as EngineStatus from "./EngineStatus.ts"
import * as EventCache from "./EventCache.ts"
import * as OwnedScopes from "./OwnedScopes.ts"
import * as Watchdog from "./Watchdog.ts"
import * as Worker from "./Worker.ts"

export interface Options extends Dispatching.Options {
  /** Returns once the store has the integrations of the configuration. No delivery is attempted before. */
  readonly integrationsReady?: Effect.Effect<void>
  /** Time between two looks for deliveries that another process has created. Default: 250 ms. */
  readonly pollInterval?: Duration.Duration
  /**
   * Whether shards that another process has taken over are taken again while they are placed here. Default: false. In a fleet, that
   * process had been frozen, or does not belong to the fleet.
   */
  readonly takesAgain?: boolean
  /** The accounts of the configuration. Deliveries of integrations in other accounts wait. All accounts if absent. */
  readonly accounts?: ReadonlySet<string>
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
  {
    accounts,
    integrationsReady = Effect.void,
    plugins,
    pollInterval = Duration.millis(250),
    retention,
    takesAgain = false
  }: Options
) {
  const pollMillis = Duration.toMillis(pollInterval)
  const store = yield* Store
  const deliveries = yield* Deliveries
  const services = {
    store,
    journal: deliveries,
    source: yield* Source,
    client: yield* HttpClient.HttpClient,
    accounts: IntegrationAccounts.make(store, accounts),
    packageLocks: new Map()
  }
  const counted = yield* CountedAttempts.make(deliveries)
  const eventCache = EventCache.make(store.identity, deliveries)
  const attempts = yield* Scope.make()
  const worker = Worker.make({ ...services, deliveries, counted }, eventCache, yield* Watchdog.make, attempts)
  const scopes = OwnedScopes.make(
    { store, deliveries },
    eventCache,
    worker,
    { plugins, takesAgain, retention },
    attempts
  )
  /** All registered handlers, as last read from the store. */
  let states: ReadonlyArray<HandlerState> = []

  // ---- status

  const draining = yield* Latch.make()
  const { awaitReached, current, report, reportRunning, retryAndReport } = yield* EngineStatus.make(draining)

  /** Every event up to this position is dispatched to all handlers. */
  const dispatchedPosition = () => {
    const dispatching = scopes.dispatching()
    if (dispatching !== null) return dispatching.position()
    const known = Dispatching.subscriptionsOf(plugins, states)
    return Math.min(...Dispatching.ofEvents(known).map(({ position }) => position), states.length === 0 ? 0 : Infinity)
  }
  const withDetails = (condition: EngineStatus.Condition): DeliveryStatus => ({
    ...condition,
    dispatches: scopes.dispatching() !== null,
    shards: worker.shards("owned").length,
    unconfigured: worker.unconfigured().map(({ integration, message, plugin }) => ({ plugin, integration, message }))
  })

  const updateStatus = (isDrained: boolean) => {
    const lost = scopes.lostOwner()
    return lost === null
      ? reportRunning(isDrained ? dispatchedPosition() : 0)
      : report(new StoreError({ reason: new Fenced(lost) }))
  }

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
      const more = yield* scopes.dispatch
      if (more !== null) return more
      const now = yield* Clock.monotonicTimeNanos
      if (worker.shards("owned").length > 0 && Number(now) - statesReadAt >= pollMillis * 1e6) {
        states = yield* deliveries.handlers
        statesReadAt = Number(now)
        for (const subscription of Dispatching.subscriptionsOf(plugins, states)) worker.subscribe(subscription)
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

    /** Applies the switches that operators have changed since the last check. Returns whether there was a command. */
    const applySwitches = Effect.gen(function*() {
      const done = yield* deliveries.awaitCommand(-1)
      if (done === commandsSeen) return false
      off = yield* deliveries.switchedOff
      commandsSeen = done
      worker.releaseDisabled(off, yield* services.accounts.unavailable)
      return true
    })

    /** Settles ended attempts, then claims and starts due deliveries. Returns when to run next if no event wakes the engine first. */
    const settleAndStart = Effect.fnUntraced(function*(more: boolean) {
      worker.settled(worker.outcomes("lost"))
      if (isClaimUncertain) yield* releaseLostClaims
      yield* scopes.finishHandovers
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
      // without owned shards the circuits were not read here
      if (owned.length > 0) yield* worker.updateCircuits(outcomes, circuits)
      yield* scopes.lose(lost)
      // a plugin may have been switched off while its deliveries were being claimed; if it was switched on, this claim left its deliveries out
      const commanded = yield* Effect.tapError(applySwitches, () => Effect.sync(() => isClaimUncertain = true))
      yield* worker.start(claimed, off, unavailable)
      const again = plan !== null && worker.onClaimed(now, plan, claimed, isolatedDue)
      const atOnce = again || commanded
      yield* updateStatus(!more && !atOnce && isReady && worker.isIdle() && claimed.length === 0)
      // an attempt that has ended may be the tick before a deferred one
      if (atOnce || (outcomes.length > 0 && scopes.dispatching()?.hasDeferredTicks() === true)) return now
      const recheckAt = unavailable.removed.size === 0 ? Infinity : now + removedRecheckMillis
      const dispatching = scopes.dispatching()
      const polls = scopes.willTakeAgain() || (dispatching === null && owned.length > 0)
      const pollAt = polls ? now + pollMillis : Infinity
      // without claims the worker's times would stay in the past
      const claimAt = plan === null ? Infinity : worker.wakeAt(now)
      return Math.min(next ?? Infinity, claimAt, dispatching?.wakeAt(now) ?? Infinity, recheckAt, pollAt)
    })

    /** Returns when there may be work. `more`: the log has rows to dispatch, which wait until a delivery has ended. */
    const awaitWork = Effect.fnUntraced(function*(wakeAt: number, more: boolean) {
      const now = yield* Clock.currentTimeMillis
      const timer = wakeAt === Infinity ? Effect.never : Effect.sleep(Duration.millis(Math.max(0, wakeAt - now)))
      yield* Effect.raceAllFirst([
        timer,
        worker.awaitEnd,
        more ? Effect.never : scopes.dispatching()?.awaitLog ?? Effect.never,
        deliveries.awaitCommand(commandsSeen),
        isReady ? Effect.never : Fiber.await(readiness),
        scopes.awaitChange,
        draining.await
      ])
    })

    const step = Effect.gen(function*() {
      yield* scopes.take
      const more = yield* dispatch
      const wakeAt = yield* settleAndStart(more)
      yield* more && !worker.isFull() ? Effect.yieldNow : awaitWork(wakeAt, more)
      yield* applySwitches
    })
    /** Settles what still ends, even while the store is unavailable. The attempts have the time that the gotcha above states. */
    const settleWhileStopping = settleAndStart(true).pipe(
      Effect.tapError(report),
      Effect.retry({
        while: ({ reason }) => reason.retryable && !worker.isFree(),
        schedule: Schedule.spaced(Recovery.storePause)
      })
    )

    while (!draining.isOpen()) {
      yield* Effect.catchIf(
        retryAndReport(step),
        ({ reason }) => reason.retryable && draining.isOpen(),
        () => Effect.void
      )
    }
    while (!worker.isIdle()) {
      yield* settleWhileStopping
      if (!worker.isIdle()) yield* worker.awaitEnd
    }
  })

  yield* scopes.register
  const finished = yield* serve.pipe(
    Effect.ensuring(Effect.sync(worker.interruptAll)),
    Effect.onExit((exit) => Scope.close(attempts, exit)),
    Effect.ensuring(Effect.sync(scopes.close)),
    Recovery.failOnDefect,
    // errors of the store have been reported
    Effect.catch((error) => error._tag === "Unexpected" ? report(error) : Effect.void),
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() =>
    draining.open.pipe(Effect.andThen(Effect.sync(worker.handOverAll)), Effect.andThen(Fiber.await(finished)))
  )

  // A new plugin starts at the newest position: it receives every event that is appended after the layer is built.
  yield* awaitReached(({ state }) => state !== "starting")

  return DeliveryEngine.of({
    status: Effect.map(current, withDetails),
    awaitDrained: (position) =>
      Effect.map(awaitReached((now) => now.drainedPosition >= position || now.state === "stopped"), withDetails)
  })
})
