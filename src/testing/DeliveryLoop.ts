/**
 * Deliveries to one plugin by the rules of the service: who receives what, retries with back-off, dead letters that park
 * their successors, batches that are halved. Hides attempts and time.
 *
 * Gotchas
 * - Deliveries come one after another: races between handlers are not shown. The write budget is not counted.
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

/**
 * What became of a delivery. `dead`: it is a dead letter. `parked`: it waits behind a dead letter of the same record.
 */
export interface DeliveryResult {
  readonly handler: string
  readonly state: "done" | "dead" | "parked"
  /** Times the handler was run. */
  readonly attempts: number
  /** Of a dead letter. */
  readonly failure: HandlerError | Defect | null
}

/** A plugin in a world that it dies in at most once, and what came of it. */
export interface DeliveryContext<C> {
  readonly plugin: Plugin<C>
  readonly world: TestEnvironment
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

/** What a handler's options leave open. */
const defaults = { timeout: "30 seconds", attempts: 8, first: "1 second", longest: "10 minutes" } as const
/** Who is told to wait this often will be told so for ever. */
const maxRateLimitWaits = 100

const nowhere = ConfigProvider.fromUnknown({})

/** The environment does not count; a configuration that is not complete is a mistake of the test. */
const configOf = <C>({ plugin }: DeliveryContext<C>, integration: string): Effect.Effect<C> =>
  configurationOf(plugin, integration).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, nowhere),
    Effect.mapError(({ message, plugin }) =>
      new Error(`the configuration of "${plugin}" is not complete, give values with \`plugin.with\`: ${message}`)
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

const dedupKeysOf = ({ name }: Handler<never>, of: string): readonly [string] => [JSON.stringify([name, of])]

/** Runs a handler until it is done, or there is no use. */
const attemptUntilSettled = Effect.fnUntraced(function*<C>(trial: DeliveryContext<C>, handler: Handler<C>, task: Task) {
  const { crashPoint, logs, world } = trial
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
    const end = yield* new TestAttempt(world, delivery, crashPoint, logs).run
    if (end._tag === "Done") return settled("done")
    if (end._tag === "Crashed") continue
    const { failure } = end
    if (failure._tag === "RateLimited" && ++waited < maxRateLimitWaits) {
      world.state.now += Duration.toMillis(failure.retryAfter)
    } else if (failure._tag !== "Permanent" && failure._tag !== "RateLimited" && ++failed < attempts) {
      world.state.now += delayOf(retry, failed)
    } else return settled("dead", failure)
  }
})

const toHandler = Effect.fnUntraced(
  function*<C>(trial: DeliveryContext<C>, handler: Handler<C>, { event, input }: Received) {
    const { integration, model, recordId } = event
    const { parked } = trial.world.state
    const line = JSON.stringify([handler.name, integration, model, recordId])
    if (parked.has(line)) {
      trial.settled.push({ handler: handler.name, state: "parked", attempts: 0, failure: null })
      return
    }
    const config = yield* configOf(trial, integration)
    const record = { model, id: recordId }
    const task = {
      dedupKeys: dedupKeysOf(handler, event.id),
      integration,
      record,
      run: () => handler.run(input, config)
    }
    const settled = yield* attemptUntilSettled(trial, handler, task)
    trial.settled.push(settled)
    if (settled.state === "dead" && handler.options.onDeadLetter !== "skip") parked.add(line)
  }
)

const memberOf = (handler: Handler<never>, { event }: Received): string => JSON.stringify([handler.name, event.id])

/** A batch that fails is halved down to the event that is to blame; what the whole has done its parts do not do again. */
const toBatch = Effect.fnUntraced(function*<C>(
  trial: DeliveryContext<C>,
  handler: Handler<C>,
  integration: string,
  members: readonly [Received, ...ReadonlyArray<Received>],
  wider: ReadonlyArray<string> = []
): Effect.fn.Return<void> {
  const config = yield* configOf(trial, integration)
  const [{ event }] = members
  const inputs = members.map(({ input }) => input)
  const [own] = dedupKeysOf(handler, members.map(({ event }) => event.id).join())
  const dedupKeys: DedupKeys = [own, ...wider.filter((occasion) => occasion !== own)]
  for (const member of members) trial.world.state.batches.set(memberOf(handler, member), dedupKeys)
  const record = members.length > 1 ? null : { model: event.model, id: event.recordId }
  const task = { dedupKeys, integration, record, run: () => handler.run(inputs, config) }
  const settled = yield* attemptUntilSettled(trial, handler, task)
  const half = Math.ceil(members.length / 2)
  const [[first, ...others], [next, ...rest]] = [members.slice(0, half), members.slice(half)]
  if (settled.state !== "dead" || first === undefined || next === undefined) {
    trial.settled.push(settled)
    return
  }
  yield* toBatch(trial, handler, integration, [first, ...others], dedupKeys)
  yield* toBatch(trial, handler, integration, [next, ...rest], dedupKeys)
})

/** To every handler that receives them. */
export const deliver = Effect.fnUntraced(
  function*<C>(trial: DeliveryContext<C>, events: ReadonlyArray<PublishedEvent>) {
    const { plugin, world } = trial
    const published = events.map((event) => world.publish(event))
    for (const handler of plugin.handlers) {
      const taken = published.flatMap((event): ReadonlyArray<Received> => {
        const input = isEnabledIn(plugin, event.integration) ? eventFor(plugin.name, handler, event) : null
        return input === null ? [] : [{ event, input }]
      })
      if (handler.activation._tag !== "Batch") {
        for (const one of taken) yield* toHandler(trial, handler, one)
        continue
      }
      const { size } = handler.activation
      // events that were delivered before are in a batch with those that they were delivered with
      const lastOf = (one: Received) => world.state.batches.get(memberOf(handler, one)) ?? []
      for (const members of Map.groupBy(taken, (one) => [one.event.integration, ...lastOf(one)].join("\n")).values()) {
        for (let at = 0; at < members.length; at += size) {
          const [first, ...others] = members.slice(at, at + size)
          if (first !== undefined) {
            yield* toBatch(trial, handler, first.event.integration, [first, ...others], lastOf(first))
          }
        }
      }
    }
  }
)

/** One run of an `.every` handler, over what happened since the last one. */
export const tick = Effect.fnUntraced(function*<C>(trial: DeliveryContext<C>, name: string, integration: string) {
  const { plugin, world } = trial
  const handler = plugin.handlers.find((handler) => handler.name === name && handler.activation._tag === "Tick")
  if (handler === undefined) throw new Error(`plugin "${plugin.name}" has no \`.every\` handler "${name}"`)
  const { log, now, ticks } = world.state
  const place = JSON.stringify([name, integration])
  const [from, to] = [ticks.get(place) ?? 0, log.length]
  const scheduledAt = new Date(now)
  const due = { integration, scheduledAt, from: `test-1-${from}`, to: `test-1-${to}` }
  const config = yield* configOf(trial, integration)
  const task = {
    dedupKeys: dedupKeysOf(handler, `${scheduledAt.toISOString()}/${integration}`),
    integration,
    record: "tick" as const,
    run: () => handler.run(due, config)
  }
  trial.settled.push(yield* attemptUntilSettled(trial, handler, task))
  ticks.set(place, to)
})
