/**
 * The work that one process does for all shards: it registers the handlers, creates the deliveries of events and ticks, and deletes old
 * journals.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Plugin } from "../../plugin/Plugin.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { HandlerState } from "../../store/Delivery.ts"
import type { Owner } from "../../store/State.ts"
import type { Store } from "../../store/Store.ts"
import { batchWindowOf, type Subscription } from "../handler/Subscription.ts"
import * as Dispatcher from "./Dispatcher.ts"
import type { EventCache } from "./EventCache.ts"
import * as Ticks from "./Ticks.ts"

const pruneEvery = Duration.toMillis(Duration.hours(1))

type Plugins = ReadonlyArray<Plugin<unknown>>

const configuredHandlersOf = (plugins: Plugins) =>
  plugins.flatMap(({ handlers, name, settings }) =>
    handlers.map(({ name: handler, activation, options }) => ({
      plugin: name,
      handler,
      scheduled: activation._tag === "Tick",
      from: settings.from ?? "now",
      skipsDeadLetters: options.onDeadLetter === "skip"
    }))
  )

/** The configured handlers that are registered. */
export const subscriptionsOf = (
  plugins: Plugins,
  states: ReadonlyArray<HandlerState>
): ReadonlyArray<Subscription & { position: number }> =>
  plugins.flatMap((plugin) =>
    plugin.handlers.flatMap((handler) => {
      const state = states.find((each) => each.plugin === plugin.name && each.handler === handler.name)
      return state === undefined
        ? []
        : [{ key: state.key, position: state.position, plugin, handler, batchWindow: batchWindowOf(handler) }]
    })
  )

export const ofEvents = <S extends Subscription>(subscriptions: ReadonlyArray<S>): ReadonlyArray<S> =>
  subscriptions.filter(({ handler }) => handler.activation._tag !== "Tick")

export interface Options {
  readonly plugins: Plugins
  /** How long the journal of a settled delivery is kept. */
  readonly retention: Duration.Duration
}

/** `background`: for deleting old journals. */
export const begin = Effect.fnUntraced(function*(
  services: { readonly store: Store["Service"]; readonly deliveries: Deliveries["Service"] },
  eventCache: EventCache,
  owner: Owner,
  { plugins, retention }: Options,
  background: Scope.Scope
) {
  const { deliveries, store } = services
  const registered = yield* deliveries.registerHandlers(owner, configuredHandlersOf(plugins))
  const subscriptions = subscriptionsOf(plugins, registered)
  const readingLog = ofEvents(subscriptions)
  const ticked = new Map(registered.map(({ key, ticked }) => [key, ticked]))
  const dispatcher = Dispatcher.make(services, eventCache, owner, readingLog, ticked)
  const ticks = Ticks.make(subscriptions, yield* Clock.currentTimeMillis)
  let pruneAt = 0
  /** When the next tick was due, and how many saves of integrations were known, when the ticks were last planned. */
  let planned = { nextAt: Infinity, saves: -1 }

  const prune = Effect.fnUntraced(function*(now: number) {
    if (now < pruneAt && pruneAt - now <= pruneEvery) return
    pruneAt = now + pruneEvery
    yield* deliveries.prune(now - Duration.toMillis(retention)).pipe(
      Effect.catch((error) =>
        Effect.logWarning("delivery journal could not be pruned").pipe(Effect.annotateLogs({ why: error.message }))
      ),
      Effect.forkIn(background)
    )
  })

  const makeTicks = Effect.fnUntraced(function*(now: number) {
    if (!ticks.isUsed) return
    const current = { nextAt: ticks.nextScheduledAt(now), saves: yield* store.integrationSaves }
    if (current.nextAt === planned.nextAt && current.saves === planned.saves && !ticks.hasDeferred()) return
    const integrations = (yield* store.integrations).filter(({ state }) => state === "active").map(({ id }) => id)
    const schedule = ticks.planDue(integrations, now)
    if (schedule !== null) ticks.markCreated(schedule, yield* deliveries.dispatchTicks(owner, schedule), now)
    planned = current
  })

  return {
    owner,
    subscriptions,
    position: dispatcher.position,
    /** Creates the deliveries of due ticks and of the next rows of the log. Returns whether there may be more rows. */
    step: Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      yield* prune(now)
      yield* makeTicks(now)
      return yield* dispatcher.step()
    }),
    hasDeferredTicks: ticks.hasDeferred,
    /** When the next tick is due, or old journals are deleted again. A tick that has become due since the last `step` is in the past. */
    wakeAt: (now: number): number => Math.min(planned.nextAt, ticks.nextDueAt(now), pruneAt),
    /** Returns when the log has rows that are not dispatched. */
    awaitLog: readingLog.length === 0
      ? Effect.never
      : Effect.suspend(() => store.awaitLog(dispatcher.position()))
  }
})

export type Dispatching = Effect.Success<ReturnType<typeof begin>>
