/**
 * Delivers events to one plugin by the same rules as the service: matching of events to handlers, retries with back-off, dead
 * letters that park later events of the record, halving of failed batches. Hides attempts and virtual time.
 *
 * Gotchas
 * - Deliveries run one after another, so races between handlers do not occur here. The write budget is not counted.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { HandlerEffect } from "../plugin/Capabilities.ts"
import { eventFor, type PublishedEvent } from "../plugin/EventMatching.ts"
import type { HandlerError } from "../plugin/Failure.ts"
import type { Handler, Plugin } from "../plugin/Plugin.ts"
import { configurationOf, isEnabledIn } from "../plugin/PluginConfiguration.ts"
import { type CrashPoint, type Defect, TestAttempt, type TestDelivery } from "./TestAttempt.ts"
import type { DedupKeys, TestEnvironment } from "./TestEnvironment.ts"

/** The result of one delivery. `dead`: it is a dead letter. `parked`: it waits behind a dead letter of the same record. */
export interface DeliveryResult {
  readonly handler: string
  readonly state: "done" | "dead" | "parked"
  /** How often the handler was run. */
  readonly attempts: number
  /** The failure of a dead letter; otherwise null. */
  readonly failure: HandlerError | Defect | null
}

/** A plugin, its environment, the point at which the process crashes (at most once), and the results so far. */
export interface DeliveryContext<C> {
  readonly plugin: Plugin<C>
  readonly environment: TestEnvironment
  readonly crashPoint: CrashPoint
  readonly settled: Array<DeliveryResult>
  readonly logs: Array<string>
}

interface Received {
  readonly event: PublishedEvent
  readonly input: object
}

interface Task {
  readonly dedupKeys: DedupKeys
  readonly integration: string
  readonly record: TestDelivery["record"]
  readonly run: () => HandlerEffect
}

/** Defaults of the handler options. */
const defaults = { timeout: "30 seconds", attempts: 8, first: "1 second", longest: "10 minutes" } as const
/** A handler that fails with `RateLimited` this often would do so forever; the delivery becomes a dead letter. */
const maxRateLimitWaits = 100

const noEnvironment = ConfigProvider.fromUnknown({})

/** Ignores the process environment. An incomplete configuration is a mistake in the test, and therefore a defect. */
const configOf = <C>({ plugin }: DeliveryContext<C>, integration: string): Effect.Effect<C> =>
  configurationOf(plugin, integration).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, noEnvironment),
    Effect.mapError(({ message, plugin }) =>
      new Error(`the configuration of "${plugin}" is incomplete; pass values with \`plugin.with\`: ${message}`)
    ),
    Effect.orDie
  )

const delayOf = (
  { first = defaults.first, longest = defaults.longest }: NonNullable<Handler<never>["options"]["retry"]>,
  failed: number
) =>
  Duration.toMillis(Duration.min(
    Duration.times(Duration.fromInputUnsafe(first), 2 ** (failed - 1)),
    Duration.fromInputUnsafe(longest)
  ))

const dedupKeysOf = ({ name }: Handler<never>, id: string): readonly [string] => [JSON.stringify([name, id])]

/** Runs a handler until it succeeds or the delivery becomes a dead letter. */
const attemptUntilSettled = Effect.fnUntraced(
  function*<C>(context: DeliveryContext<C>, handler: Handler<C>, task: Task) {
    const { crashPoint, logs, environment } = context
    const { attempts = defaults.attempts, retry = {}, timeout = defaults.timeout } = handler.options
    const delivery = { ...task, handler: handler.name, timeout: Duration.fromInputUnsafe(timeout) }
    let [runs, failed, waited] = [0, 0, 0]
    const settled = (state: DeliveryResult["state"], failure: DeliveryResult["failure"] = null): DeliveryResult => ({
      handler: handler.name,
      state,
      attempts: runs,
      failure
    })
    for (;;) {
      runs++
      const end = yield* new TestAttempt(environment, delivery, crashPoint, logs).run
      if (end._tag === "Done") return settled("done")
      if (end._tag === "Crashed") continue
      const { failure } = end
      if (failure._tag === "RateLimited" && ++waited < maxRateLimitWaits) {
        environment.state.now += Duration.toMillis(failure.retryAfter)
      } else if (failure._tag !== "Permanent" && failure._tag !== "RateLimited" && ++failed < attempts) {
        environment.state.now += delayOf(retry, failed)
      } else return settled("dead", failure)
    }
  }
)

const toHandler = Effect.fnUntraced(
  function*<C>(context: DeliveryContext<C>, handler: Handler<C>, { event, input }: Received) {
    const { integration, model, recordId } = event
    const { parked } = context.environment.state
    const orderingKey = JSON.stringify([handler.name, integration, model, recordId])
    if (parked.has(orderingKey)) {
      context.settled.push({ handler: handler.name, state: "parked", attempts: 0, failure: null })
      return
    }
    const config = yield* configOf(context, integration)
    const record = { model, id: recordId }
    const task = {
      dedupKeys: dedupKeysOf(handler, event.id),
      integration,
      record,
      run: () => handler.run(input, config)
    }
    const settled = yield* attemptUntilSettled(context, handler, task)
    context.settled.push(settled)
    if (settled.state === "dead" && handler.options.onDeadLetter !== "skip") parked.add(orderingKey)
  }
)

const memberOf = (handler: Handler<never>, { event }: Received): string => JSON.stringify([handler.name, event.id])

/** Halves a failed batch until the failing event is alone. Steps and writes that the whole batch completed are not repeated. */
const toBatch = Effect.fnUntraced(function*<C>(
  context: DeliveryContext<C>,
  handler: Handler<C>,
  integration: string,
  members: readonly [Received, ...ReadonlyArray<Received>],
  enclosing: ReadonlyArray<string> = []
): Effect.fn.Return<void> {
  const config = yield* configOf(context, integration)
  const [{ event }] = members
  const inputs = members.map(({ input }) => input)
  const [own] = dedupKeysOf(handler, members.map(({ event }) => event.id).join())
  const dedupKeys: DedupKeys = [own, ...enclosing.filter((key) => key !== own)]
  for (const member of members) context.environment.state.batches.set(memberOf(handler, member), dedupKeys)
  const record = members.length > 1 ? null : { model: event.model, id: event.recordId }
  const task = { dedupKeys, integration, record, run: () => handler.run(inputs, config) }
  const settled = yield* attemptUntilSettled(context, handler, task)
  const half = Math.ceil(members.length / 2)
  const [[first, ...others], [next, ...rest]] = [members.slice(0, half), members.slice(half)]
  if (settled.state !== "dead" || first === undefined || next === undefined) {
    context.settled.push(settled)
    return
  }
  yield* toBatch(context, handler, integration, [first, ...others], dedupKeys)
  yield* toBatch(context, handler, integration, [next, ...rest], dedupKeys)
})

/** Delivers events to every handler that receives them. */
export const deliver = Effect.fnUntraced(
  function*<C>(context: DeliveryContext<C>, events: ReadonlyArray<PublishedEvent>) {
    const { plugin, environment } = context
    const published = events.map((event) => environment.publish(event))
    for (const handler of plugin.handlers) {
      const received = published.flatMap((event): ReadonlyArray<Received> => {
        const input = isEnabledIn(plugin, event.integration) ? eventFor(plugin.name, handler, event) : null
        return input === null ? [] : [{ event, input }]
      })
      if (handler.activation._tag !== "Batch") {
        for (const one of received) yield* toHandler(context, handler, one)
        continue
      }
      const { size } = handler.activation
      // events that were delivered before form a batch with the same events as then
      const lastOf = (one: Received) => environment.state.batches.get(memberOf(handler, one)) ?? []
      for (
        const members of Map.groupBy(received, (one) => [one.event.integration, ...lastOf(one)].join("\n")).values()
      ) {
        for (let at = 0; at < members.length; at += size) {
          const [first, ...others] = members.slice(at, at + size)
          if (first !== undefined) {
            yield* toBatch(context, handler, first.event.integration, [first, ...others], lastOf(first))
          }
        }
      }
    }
  }
)

/** Runs an `.every` handler once, over the events since its previous tick. */
export const tick = Effect.fnUntraced(function*<C>(context: DeliveryContext<C>, name: string, integration: string) {
  const { plugin, environment } = context
  const handler = plugin.handlers.find((handler) => handler.name === name && handler.activation._tag === "Tick")
  if (handler === undefined) throw new Error(`plugin "${plugin.name}" has no \`.every\` handler "${name}"`)
  const { log, now, ticks } = environment.state
  const tickKey = JSON.stringify([name, integration])
  const [from, to] = [ticks.get(tickKey) ?? 0, log.length]
  const scheduledAt = new Date(now)
  const due = { integration, scheduledAt, from: `test-1-${from}`, to: `test-1-${to}` }
  const config = yield* configOf(context, integration)
  const task = {
    dedupKeys: dedupKeysOf(handler, `${scheduledAt.toISOString()}/${integration}`),
    integration,
    record: "tick" as const,
    run: () => handler.run(due, config)
  }
  context.settled.push(yield* attemptUntilSettled(context, handler, task))
  ticks.set(tickKey, to)
})
