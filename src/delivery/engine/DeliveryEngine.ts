/**
 * Runs plugins.
 *
 * Invariants
 * 1. If two processes deliver from one store, only the one that started later has any effect   (I10, X16)
 * 2. A store outage loses nothing: attempts that ended during the outage are settled when the store is available again
 *
 * Gotchas
 * - The engine takes ownership once, at its start. An engine that was replaced must not take over again by a retry.
 * - On shutdown a running attempt gets the rest of its time-out. The next process delivers everything else.
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
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import type { Plugin } from "../../plugin/Plugin.ts"
import { Source } from "../../source/Source.ts"
import { Deliveries, type Switch } from "../../store/Deliveries.ts"
import * as Recovery from "../../store/Recovery.ts"
import { type Owner, Store, type StoreError } from "../../store/Store.ts"
import * as IntegrationAccounts from "../handler/IntegrationAccounts.ts"
import type { OpenCircuit } from "./CircuitBreaker.ts"
import * as Dispatcher from "./Dispatcher.ts"
import * as EventCache from "./EventCache.ts"
import { batchWindowOf } from "./Subscription.ts"
import * as Ticks from "./Ticks.ts"
import * as Watchdog from "./Watchdog.ts"
import { deliveryScope } from "./WithoutPlugins.ts"
import * as Worker from "./Worker.ts"

/** The status of one handler. */
export interface HandlerStatus {
  readonly plugin: string
  readonly handler: string
  /** Deliveries have been created for all events up to this position of the log. */
  readonly position: number
  /** Attempts that are running. */
  readonly running: number
  /** Set after too many different records have failed one after another: one delivery at a time is tried until one succeeds. */
  readonly circuitOpen: OpenCircuit | null
}

/** `waiting`: the store is unavailable. `stopped`: the store cannot be used, or another process delivers. */
export interface DeliveryStatus extends Recovery.Condition {
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
}

const pruneEvery = Duration.hours(1)
/** How often the engine checks whether a removed integration has been added again, ms. */
const removedRecheckMillis = 60_000

export class DeliveryEngine extends Context.Service<DeliveryEngine, {
  readonly status: Effect.Effect<DeliveryStatus>
  /** Returns once the log is drained up to `position` (see `DeliveryStatus.drainedPosition`), or delivery has stopped. */
  readonly awaitDrained: (position: number) => Effect.Effect<DeliveryStatus>
}>()("rollcall/delivery/DeliveryEngine") {
  /** Delivers in the background for as long as the layer lives. Handlers send their own requests with `HttpClient`. */
  static readonly layer = (
    options: Options
  ): Layer.Layer<DeliveryEngine, never, Store | Deliveries | Source | HttpClient.HttpClient> =>
    Layer.effect(DeliveryEngine, make(options))
}

const configuredHandlersOf = (plugins: Options["plugins"]) =>
  plugins.flatMap(({ handlers, name, settings }) =>
    handlers.map(({ name: handler, activation, options }) => ({
      plugin: name,
      handler,
      scheduled: activation._tag === "Tick",
      from: settings.from ?? "now",
      skipsDeadLetters: options.onDeadLetter === "skip"
    }))
  )

const make = Effect.fnUntraced(function*({ integrationsReady = Effect.void, plugins, retention }: Options) {
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
  const watchdog = yield* Watchdog.make
  const eventCache = EventCache.make(store.identity, deliveries)
  const status = yield* SubscriptionRef.make<Condition>({ state: "starting", reason: null, drainedPosition: 0 })
  let handlerDetails: () => Omit<DeliveryStatus, keyof Condition> = () => ({ handlers: [], unconfigured: [] })
  const withHandlerDetails = (condition: Condition): DeliveryStatus => ({ ...condition, ...handlerDetails() })
  const draining = yield* Latch.make()
  let failures = 0

  /** Updates the status after a store error and pauses before the next try. An error that is not retryable stops the engine. */
  const handleStoreError = Effect.fnUntraced(function*(error: StoreError) {
    const before = yield* SubscriptionRef.get(status)
    const state = error.reason.retryable ? "waiting" : "stopped"
    const reason = Recovery.describeStoreError(error)
    // the store logs its own outages
    if (before.state !== state && state === "stopped") {
      yield* Effect.logError(`delivery stopped: ${reason.message} (${reason.hint})`)
    }
    yield* SubscriptionRef.set(status, yield* Recovery.nextCondition(before, state, reason))
    yield* Effect.raceFirst(Effect.sleep(Recovery.backoff(failures++)), draining.await)
  })

  /** Retries while the store is unavailable, and reports that in the status; fails on an error that is not retryable. */
  const retryAndReport = <A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
    effect.pipe(
      Effect.tap(() => Effect.sync(() => failures = 0)),
      Effect.catch((error) =>
        Effect.andThen(
          handleStoreError(error),
          error.reason.retryable && !draining.isOpen() ? retryAndReport(effect) : Effect.fail(error)
        )
      )
    )

  const session = Effect.fnUntraced(function*(owner: Owner, attempts: Scope.Scope) {
    const states = yield* retryAndReport(deliveries.registerHandlers(owner, configuredHandlersOf(plugins)))
    const subscriptions = plugins.flatMap((plugin) =>
      plugin.handlers.flatMap((handler) => {
        const state = states.find((each) => each.plugin === plugin.name && each.handler === handler.name)
        return state === undefined
          ? []
          : [{ key: state.key, position: state.position, plugin, handler, batchWindow: batchWindowOf(handler) }]
      })
    )
    const eventSubscriptions = subscriptions.filter(({ handler }) => handler.activation._tag !== "Tick")
    const dispatcher = Dispatcher.make({ store, deliveries }, eventCache, owner, eventSubscriptions)
    const worker = Worker.make({ ...services, deliveries }, eventCache, watchdog, owner, subscriptions, attempts)
    const ticks = Ticks.make(subscriptions, yield* Clock.currentTimeMillis)
    let commandsSeen = yield* deliveries.awaitCommand(-1)
    let off: ReadonlyArray<Switch> = yield* retryAndReport(deliveries.switchedOff)
    let isReady = false
    const readiness = yield* Effect.forkIn(
      Effect.andThen(integrationsReady, Effect.sync(() => isReady = true)),
      attempts,
      { startImmediately: true }
    )

    const makeTicks = Effect.fnUntraced(function*(now: number) {
      if (!ticks.isUsed) return
      const integrations = (yield* store.integrations).filter(({ state }) => state === "active").map(({ id }) => id)
      const schedule = ticks.planDue(integrations, now)
      if (schedule !== null) ticks.markCreated(schedule, yield* deliveries.dispatchTicks(owner, schedule), now)
    })

    handlerDetails = () => ({
      handlers: worker.status().map(({ key, ...handler }) => ({ ...handler, position: dispatcher.positionOf(key) })),
      unconfigured: worker.unconfigured().map(({ integration, message, plugin }) => ({ plugin, integration, message }))
    })
    const updateStatus = Effect.fnUntraced(function*(isDrained: boolean) {
      const { drainedPosition } = yield* SubscriptionRef.get(status)
      yield* SubscriptionRef.set(status, {
        state: "running",
        reason: null,
        drainedPosition: isDrained ? Math.max(drainedPosition, dispatcher.position()) : drainedPosition
      })
    })

    /** Settles ended attempts, then claims and starts due deliveries. Returns when to run next if no event wakes the engine first. */
    const settleAndStart = Effect.fnUntraced(function*(more: boolean) {
      const unavailable = yield* services.accounts.unavailable
      const now = yield* Clock.currentTimeMillis
      if (unavailable.removed.size > 0) worker.releaseDisabled(off, unavailable)
      const outcomes = worker.outcomes()
      const plan = draining.isOpen() || !isReady ? null : worker.planClaim(now, off, unavailable)
      const { claimed, isolatedDue, next } = yield* deliveries.settleAndClaim(owner, outcomes, plan?.requests ?? [])
      worker.settled(outcomes.length)
      yield* worker.start(claimed, unavailable)
      const atOnce = plan !== null && worker.onClaimed(now, plan, claimed, isolatedDue)
      yield* updateStatus(!more && !atOnce && isReady && worker.isIdle() && claimed.length === 0)
      if (atOnce) return now
      const recheckAt = unavailable.removed.size === 0 ? Infinity : now + removedRecheckMillis
      return Math.min(next ?? Infinity, worker.wakeAt(now), ticks.nextDueAt(now), recheckAt)
    })

    /** Returns when there may be work. */
    const awaitWork = Effect.fnUntraced(function*(wakeAt: number) {
      const now = yield* Clock.currentTimeMillis
      const timer = wakeAt === Infinity ? Effect.never : Effect.sleep(Duration.millis(Math.max(0, wakeAt - now)))
      yield* Effect.raceAllFirst([
        timer,
        worker.awaitEnd,
        eventSubscriptions.length === 0 ? Effect.never : store.awaitLog(dispatcher.position()),
        deliveries.awaitCommand(commandsSeen),
        isReady ? Effect.never : Fiber.await(readiness),
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

    const serve = Effect.gen(function*() {
      while (!draining.isOpen()) {
        yield* retryAndReport(Effect.gen(function*() {
          yield* makeTicks(yield* Clock.currentTimeMillis)
          const more = yield* dispatcher.step()
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
    yield* Effect.ensuring(serve, Effect.sync(worker.stop))
  })

  const finished = yield* Effect.scoped(Effect.gen(function*() {
    const attempts = yield* Effect.scope
    const owner = yield* retryAndReport(store.takeOwnership(deliveryScope))
    yield* session(owner, attempts)
  })).pipe(
    Effect.catch(() => Effect.void),
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() => Effect.andThen(draining.open, Fiber.await(finished)))

  yield* Clock.currentTimeMillis.pipe(
    Effect.flatMap((now) => deliveries.prune(now - Duration.toMillis(retention))),
    Effect.catch((error) =>
      Effect.logWarning("delivery journal could not be pruned").pipe(Effect.annotateLogs({ why: error.message }))
    ),
    Effect.repeat(Schedule.spaced(pruneEvery)),
    Effect.forkScoped
  )

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
