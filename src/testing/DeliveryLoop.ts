/**
 * Delivers events to one plugin by the rules of the service: matching of events to handlers, retries with back-off, dead letters
 * that park later events of the record, halving of failed batches, ticks at the multiples of their interval.
 *
 * Gotchas
 * - Deliveries run one after another, so races between handlers do not occur here.
 */
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { outcomeOf } from "../delivery/engine/Retry.ts"
import { failureOf, retryAfterOf, TimedOut } from "../delivery/handler/AttemptFailure.ts"
import { timeoutOf } from "../delivery/handler/Job.ts"
import {
  jobOf,
  type MatchedEvent,
  plannedDeliveriesOf,
  type PlannedDelivery
} from "../delivery/handler/PlannedDelivery.ts"
import { matchEvent, type Subscription } from "../delivery/handler/Subscription.ts"
import { toDuration } from "../domain/DurationText.ts"
import type { AnyEvent, AnyListEvent } from "../plugin/Event.ts"
import { type HandlerError, isHandlerError, Transient } from "../plugin/Failure.ts"
import type { Plugin } from "../plugin/Plugin.ts"
import { configurationOf, isEnabledIn } from "../plugin/PluginConfiguration.ts"
import { batchNameOf, halvesOf } from "../store/Delivery.ts"
import * as TestAttempt from "./TestAttempt.ts"
import type { TestEnvironment } from "./TestEnvironment.ts"

/** A bug in the handler: it threw something other than the four failures. */
export interface Defect {
  readonly _tag: "Defect"
  readonly message: string
  readonly cause: unknown
}

/** The result of one delivery. `dead`: it is a dead letter. `parked`: it waits behind a dead letter of the same record. */
export interface DeliveryResult {
  readonly handler: string
  readonly state: "done" | "dead" | "parked"
  /** Number of times that the handler was run. A run that waits, for a rate limit or because its writes exceed `writesPerHour`, counts. */
  readonly attempts: number
  /** The failure of a dead letter; otherwise null. */
  readonly failure: HandlerError | Defect | null
}

/** A plugin, its environment, the point at which the process crashes (at most once), and the results so far. */
export interface DeliveryContext {
  readonly plugin: Plugin<unknown>
  readonly environment: TestEnvironment
  readonly crashPoint: TestAttempt.CrashPoint
  readonly settled: Array<DeliveryResult>
  readonly logs: Array<string>
}

/**
 * If a handler fails with `RateLimited` or `Blocked` this many times, it would probably do so forever, so the test gets a dead letter. In the
 * service the delivery would continue to wait.
 */
const maxWaits = 100

const noEnvironment = ConfigProvider.fromUnknown({})

/** Ignores the process environment. An incomplete configuration is a mistake in the test, and therefore a defect. */
const configOf = ({ plugin }: DeliveryContext, integration: string): Effect.Effect<unknown> =>
  configurationOf(plugin, integration).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, noEnvironment),
    Effect.mapError(({ message, plugin }) =>
      new Error(`the configuration of "${plugin}" is incomplete; pass values with \`plugin.with\`: ${message}`)
    ),
    Effect.orDie
  )

/** The failure as a test sees it. It includes the error, which the service would not show. */
const shownFailure = (
  cause: Cause.Cause<HandlerError | TimedOut>,
  timeout: Duration.Duration
): HandlerError | Defect => {
  const error: unknown = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (isHandlerError(error)) return error
  if (error instanceof TimedOut) {
    return new Transient({ message: `the handler took longer than ${Duration.format(timeout)}` })
  }
  const defect = Cause.squash(cause)
  return { _tag: "Defect", message: defect instanceof Error ? defect.message : String(defect), cause: defect }
}

/** A delivery, the name of its batch, if it is one, and the time at which it was created or its tick was due. */
interface NamedDelivery {
  readonly planned: PlannedDelivery
  readonly batch: string | null
  readonly at: number
}

/** The keys of the records whose later events wait behind a dead letter. */
const parkingKeyOf = ({ key }: Subscription, { integration, model, recordId }: PlannedDelivery["events"][number]) =>
  JSON.stringify([key, integration, model, recordId])

/**
 * Attempts a delivery until it succeeds or becomes a dead letter, which parks later events. A failed batch is halved until the failing event
 * is alone.
 */
const attemptUntilSettled = Effect.fnUntraced(function*(
  context: DeliveryContext,
  subscription: Subscription,
  { at, batch, planned }: NamedDelivery
): Effect.fn.Return<void> {
  const { crashPoint, environment, logs, settled } = context
  const { handler } = subscription
  const configuration = yield* configOf(context, planned.integration)
  const { delivery } = environment.claim(null)
  environment.rememberBatch(subscription.key, planned.events, batch)
  const members = planned.events.length === 0 ? [0] : planned.events
  const timeout = timeoutOf(handler)
  let [runs, attempts, waited] = [0, 0, 0]
  for (;;) {
    runs++
    const { claim } = environment.claim(delivery)
    const startedAt = environment.state.now
    const job = jobOf(subscription, { ...planned, batch }, at, { id: delivery, claim })
    const delivered = { subscription, job, configuration }
    const { exit, requests } = yield* TestAttempt.run(environment, delivered, crashPoint, logs)
    if (exit === "crashed") continue
    if (Exit.isSuccess(exit)) {
      settled.push({ handler: handler.name, state: "done", attempts: runs, failure: null })
      return
    }
    const failure = failureOf(exit.cause, timeout, environment.state.now)
    const outcome = outcomeOf(
      members.map(() => ({ id: delivery, attempts, batch })),
      { number: claim, startedAt, failure, requests },
      handler.options,
      retryAfterOf(exit.cause)
    )
    if (outcome._tag === "Split") {
      for (const { batch, members } of halvesOf(outcome.batch, planned.events)) {
        yield* attemptUntilSettled(context, subscription, { planned: { ...planned, events: members }, batch, at })
      }
      return
    }
    if (outcome._tag !== "Retry" || (outcome.attempts === attempts && ++waited >= maxWaits)) {
      settled.push({ handler: handler.name, state: "dead", attempts: runs, failure: shownFailure(exit.cause, timeout) })
      if (handler.options.onDeadLetter === "skip") return
      for (const event of planned.events) environment.state.parked.add(parkingKeyOf(subscription, event))
      return
    }
    environment.state.now = outcome.dueAt
    attempts = outcome.attempts
  }
})

const subscriptionsOf = ({ plugin }: DeliveryContext): ReadonlyArray<Subscription> =>
  plugin.handlers.map((handler, key) => ({ key, plugin, handler, batchWindow: 0 }))

/** Delivers an event, or those events of a batch that do not wait behind a dead letter of their record. */
const deliverUnparked = Effect.fnUntraced(
  function*(context: DeliveryContext, subscription: Subscription, planned: PlannedDelivery) {
    const { environment, settled } = context
    const { activation, name } = subscription.handler
    const { parked = [], free = [] } = Object.groupBy(
      planned.events,
      (event) => environment.state.parked.has(parkingKeyOf(subscription, event)) ? "parked" : "free"
    )
    for (const _ of parked) settled.push({ handler: name, state: "parked", attempts: 0, failure: null })
    if (free.length === 0) return
    const batch = activation._tag === "Batch" ? batchNameOf(planned.batch, environment.nextDelivery) : null
    const at = environment.state.now
    yield* attemptUntilSettled(context, subscription, { planned: { ...planned, events: free }, batch, at })
  }
)

/** Delivers events to every handler that receives them. */
export const deliver = Effect.fnUntraced(
  function*(context: DeliveryContext, events: ReadonlyArray<AnyEvent | AnyListEvent>) {
    const { environment } = context
    const published = events.map((event) => environment.publish(event))
    for (const subscription of subscriptionsOf(context)) {
      const { handler, key } = subscription
      const found = published.filter(({ event }) => matchEvent(subscription, event) !== "no")
      const planned = (some: ReadonlyArray<MatchedEvent>) =>
        plannedDeliveriesOf(subscription, some, environment.batchesOf(key))
      const deliveries = handler.activation._tag === "Batch" ? planned(found) : found.flatMap((each) => planned([each]))
      for (const delivery of deliveries) yield* deliverUnparked(context, subscription, delivery)
    }
  }
)

/** Runs an `.every` handler once, over the events since its previous tick, if the plugin is on in the integration. */
export const tick = Effect.fnUntraced(function*(context: DeliveryContext, name: string, integration: string) {
  const { environment, plugin } = context
  const subscription = subscriptionsOf(context).find(({ handler }) =>
    handler.name === name && handler.activation._tag === "Tick"
  )
  if (subscription?.handler.activation._tag !== "Tick") {
    throw new Error(`plugin "${plugin.name}" has no \`.every\` handler "${name}"`)
  }
  if (!isEnabledIn(plugin, integration)) return
  const key = JSON.stringify([name, integration])
  const interval = Duration.toMillis(toDuration(subscription.handler.activation.every))
  const { from, scheduledAt, to } = environment.nextTick(key, interval)
  const planned = { integration, events: [], batch: null, from, to }
  yield* attemptUntilSettled(context, subscription, { planned, batch: null, at: scheduledAt })
  environment.state.ticks.set(key, { scheduledAt, to })
})
