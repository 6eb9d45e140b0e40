/**
 * Runs plugins: hides dispatching, claims, attempts and their ends behind one service that says how plugins are.
 *
 * Invariants
 * 1. Of two processes that deliver from one store, the one that began later has effect   (I10, X16)
 * 2. A store that is away loses nothing: what ended meanwhile is settled when it is back
 *
 * Gotchas
 * - The claim is made once: an engine that was replaced must not take over again by trying.
 * - On shutdown what runs gets what is left of its time-out; the rest is delivered by the next process.
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
import { type Owner, Store, type StoreError } from "../../store/Store.ts"
import type * as HandlerContext from "../handler/HandlerContext.ts"
import * as IntegrationAccounts from "../handler/IntegrationAccounts.ts"
import type { OpenCircuit } from "./CircuitBreaker.ts"
import * as Dispatcher from "./Dispatcher.ts"
import * as EventCache from "./EventCache.ts"
import { batchWindowOf } from "./Subscription.ts"
import * as Ticks from "./Ticks.ts"
import * as Watchdog from "./Watchdog.ts"
import * as Worker from "./Worker.ts"

/** How one handler is. */
export interface HandlerStatus {
  readonly plugin: string
  readonly handler: string
  /** Up to here of the log its deliveries are made. */
  readonly position: number
  /** Attempts under way. */
  readonly running: number
  /** So many different records failed one after another that it is only probed until one succeeds. */
  readonly circuitOpen: OpenCircuit | null
}

export interface DeliveryStatus {
  /** `waiting`: the store is away, it goes on by itself. `stopped`: another process delivers, or someone has to act. */
  readonly state: "starting" | "running" | "waiting" | "stopped"
  /** Of `waiting` and `stopped`; `since` is our clock, ms. */
  readonly reason: { readonly message: string; readonly hint: string; readonly since: number } | null
  readonly handlers: ReadonlyArray<HandlerStatus>
  /** Where a plugin's configuration is not complete: its deliveries wait. */
  readonly unconfigured: ReadonlyArray<
    { readonly plugin: string; readonly integration: string; readonly message: string }
  >
  /** Up to here nothing is left but what waits: for its next try, for others of its batch, or for an operator. */
  readonly drainedPosition: number
}

type Condition = Pick<DeliveryStatus, "state" | "reason" | "drainedPosition">

export interface Options {
  readonly plugins: ReadonlyArray<Plugin<unknown>>
  /** How long the journal of what is settled is kept. */
  readonly retention: Duration.Duration
  /** Returns once the store's integrations are those of the configuration: nothing is attempted before. */
  readonly integrationsReady?: Effect.Effect<void>
}

/** Under this name one process of a store delivers. */
const scope = "delivery"
const pause = { first: Duration.millis(200), longest: Duration.seconds(30) }
const pruneEvery = Duration.hours(1)
/** While an integration is removed: how soon it is seen to be there again, ms. */
const removedRecheckMillis = 60_000

export class DeliveryEngine extends Context.Service<DeliveryEngine, {
  readonly status: Effect.Effect<DeliveryStatus>
  /** Returns once delivering is quiet at `position` (see `DeliveryStatus.drainedPosition`), or has stopped. */
  readonly awaitDrained: (position: number) => Effect.Effect<DeliveryStatus>
}>()("rollcall/delivery/DeliveryEngine") {
  /** Delivers in the background for as long as the layer lives. `HttpClient` is the one that handlers are given. */
  static readonly layer = (
    options: Options
  ): Layer.Layer<DeliveryEngine, never, Store | Deliveries | Source | HttpClient.HttpClient> =>
    Layer.effect(DeliveryEngine, make(options))
}

const newHandlersOf = (plugins: Options["plugins"]) =>
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
  const services: HandlerContext.Services = {
    store,
    deliveries,
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

  /** What a store's failure means: it goes on later, or, where someone else took over, never. */
  const handleStoreError = Effect.fnUntraced(function*({ reason }: StoreError) {
    const before = yield* SubscriptionRef.get(status)
    const state = reason.retryable ? "waiting" : "stopped"
    const message = `the store is ${reason._tag.toLowerCase()}`
    // what passes the store itself logs
    if (before.state !== state && !reason.retryable) {
      yield* Effect.logError(`delivering stopped: ${message} (${reason.hint})`)
    }
    const since = before.state === state && before.reason !== null
      ? before.reason.since
      : yield* Clock.currentTimeMillis
    yield* SubscriptionRef.set(status, { ...before, state, reason: { message, hint: reason.hint, since } })
    const doubled = Duration.min(Duration.times(pause.first, 2 ** Math.min(failures++, 16)), pause.longest)
    yield* Effect.raceFirst(Effect.sleep(doubled), draining.await)
  })

  /** Tries again while the store is away; what cannot be tried again fails. */
  const retryWhileStoreUnavailable = <A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
    effect.pipe(
      Effect.tap(() => Effect.sync(() => failures = 0)),
      Effect.catch((error) =>
        Effect.andThen(
          handleStoreError(error),
          error.reason.retryable && !draining.isOpen() ? retryWhileStoreUnavailable(effect) : Effect.fail(error)
        )
      )
    )

  const session = Effect.fnUntraced(function*(owner: Owner, attempts: Scope.Scope) {
    const states = yield* retryWhileStoreUnavailable(deliveries.registerHandlers(owner, newHandlersOf(plugins)))
    const subscriptions = plugins.flatMap((plugin) =>
      plugin.handlers.flatMap((handler) => {
        const state = states.find((each) => each.plugin === plugin.name && each.handler === handler.name)
        return state === undefined
          ? []
          : [{ key: state.key, position: state.position, plugin, handler, batchWindow: batchWindowOf(handler) }]
      })
    )
    const fed = subscriptions.filter(({ handler }) => handler.activation._tag !== "Tick")
    const dispatcher = Dispatcher.make({ store, deliveries }, eventCache, owner, fed)
    const worker = Worker.make(services, eventCache, watchdog, owner, subscriptions, attempts)
    const ticks = Ticks.make(subscriptions, yield* Clock.currentTimeMillis)
    let commandsSeen = yield* deliveries.awaitCommand(-1)
    let off: ReadonlyArray<Switch> = yield* retryWhileStoreUnavailable(deliveries.switchedOff)
    let isReady = false
    const readiness = yield* Effect.forkIn(
      Effect.andThen(integrationsReady, Effect.sync(() => isReady = true)),
      attempts,
      { startImmediately: true }
    )

    const makeTicks = Effect.fnUntraced(function*(now: number) {
      if (!ticks.isUsed) return
      const integrations = (yield* store.integrations).filter(({ state }) => state === "active").map(({ id }) => id)
      const ticking = ticks.planDue(integrations, now)
      if (ticking !== null) ticks.markCreated(ticking, yield* deliveries.dispatchTicks(owner, ticking), now)
    })

    handlerDetails = () => ({
      handlers: worker.status().map(({ key, ...handler }) => ({ ...handler, position: dispatcher.positionOf(key) })),
      unconfigured: worker.unconfigured().map(({ integration, message, plugin }) => ({ plugin, integration, message }))
    })
    const updateStatus = Effect.fnUntraced(function*(quiet: boolean) {
      const { drainedPosition } = yield* SubscriptionRef.get(status)
      yield* SubscriptionRef.set(status, {
        state: "running",
        reason: null,
        drainedPosition: quiet ? Math.max(drainedPosition, dispatcher.position()) : drainedPosition
      })
    })

    /** What has ended is settled, what is due is begun. Gives when there is something to do again without being woken. */
    const settleAndStart = Effect.fnUntraced(function*(more: boolean) {
      const absent = yield* services.accounts.unavailable
      const now = yield* Clock.currentTimeMillis
      if (absent.removed.size > 0) worker.releaseDisabled(off, absent)
      const outcomes = worker.outcomes()
      const plan = draining.isOpen() || !isReady ? null : worker.planClaim(now, off, absent)
      const { alone, claimed, next } = yield* deliveries.settleAndClaim(owner, outcomes, plan?.requests ?? [])
      worker.settled(outcomes.length)
      yield* worker.start(claimed, absent)
      const atOnce = plan !== null && worker.onClaimed(now, plan, claimed, alone)
      yield* updateStatus(!more && !atOnce && isReady && worker.isIdle() && claimed.length === 0)
      if (atOnce) return now
      const returns = absent.removed.size === 0 ? Infinity : now + removedRecheckMillis
      return Math.min(next ?? Infinity, worker.wakeAt(now), ticks.nextDueAt(now), returns)
    })

    /** Returns when there may be something to do. */
    const awaitWork = Effect.fnUntraced(function*(wakeAt: number) {
      const now = yield* Clock.currentTimeMillis
      const timer = wakeAt === Infinity ? Effect.never : Effect.sleep(Duration.millis(Math.max(0, wakeAt - now)))
      yield* Effect.raceAllFirst([
        timer,
        worker.awaitEnd,
        fed.length === 0 ? Effect.never : store.awaitLog(dispatcher.position()),
        deliveries.awaitCommand(commandsSeen),
        isReady ? Effect.never : Fiber.await(readiness),
        draining.await
      ])
    })

    /** What operators have switched since it was looked at. */
    const applySwitches = Effect.gen(function*() {
      const done = yield* deliveries.awaitCommand(-1)
      if (done === commandsSeen) return
      off = yield* deliveries.switchedOff
      commandsSeen = done
      worker.releaseDisabled(off, yield* services.accounts.unavailable)
    })

    const serve = Effect.gen(function*() {
      while (!draining.isOpen()) {
        yield* retryWhileStoreUnavailable(Effect.gen(function*() {
          yield* makeTicks(yield* Clock.currentTimeMillis)
          const more = yield* dispatcher.step()
          const wakeAt = yield* settleAndStart(more)
          yield* more ? Effect.yieldNow : awaitWork(wakeAt)
          yield* applySwitches
        }))
      }
      worker.drain()
      while (!worker.isIdle()) {
        yield* retryWhileStoreUnavailable(settleAndStart(true))
        if (!worker.isIdle()) yield* worker.awaitEnd
      }
    })
    yield* Effect.ensuring(serve, Effect.sync(worker.stop))
  })

  const finished = yield* Effect.scoped(Effect.gen(function*() {
    const attempts = yield* Effect.scope
    const owner = yield* retryWhileStoreUnavailable(store.takeOwnership(scope))
    yield* session(owner, attempts)
  })).pipe(
    Effect.catch(() => Effect.void),
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() => Effect.andThen(draining.open, Fiber.await(finished)))

  yield* Clock.currentTimeMillis.pipe(
    Effect.flatMap((now) => deliveries.prune(now - Duration.toMillis(retention))),
    Effect.catch((error) => Effect.logWarning("journal not pruned").pipe(Effect.annotateLogs({ why: error.message }))),
    Effect.repeat(Schedule.spaced(pruneEvery)),
    Effect.forkScoped
  )

  const awaitStatus = (isMeant: (now: Condition) => boolean) =>
    SubscriptionRef.changes(status).pipe(
      Stream.filter(isMeant),
      Stream.runHead,
      Effect.flatMap((now) => now._tag === "Some" ? Effect.succeed(now.value) : SubscriptionRef.get(status))
    )
  // a new plugin begins here: what is appended once the layer is built, it gets
  yield* awaitStatus(({ state }) => state !== "starting")

  return DeliveryEngine.of({
    status: Effect.map(SubscriptionRef.get(status), withHandlerDetails),
    awaitDrained: (position) =>
      Effect.map(awaitStatus((now) => now.drainedPosition >= position || now.state === "stopped"), withHandlerDetails)
  })
})
