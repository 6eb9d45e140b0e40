/** A relay from a store in memory to a sink in memory, in virtual time. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import type { LogEntry } from "../../../src/domain/ChangeEvent.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import type { RelayStatus } from "../../../src/publish/RelayStatus.ts"
import { Sink, type SinkError } from "../../../src/publish/Sink.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemorySink from "./MemorySink.ts"

export interface RelayingOptions {
  readonly relay?: Layer.Layer<Relay, never, Sink | Store>
  /** Operations of the sink that the relay gets instead of its own. */
  readonly sink?: (sink: Sink["Service"]) => Partial<Sink["Service"]>
  /** Operations of the store that the relay gets instead of its own. */
  readonly store?: (store: Store["Service"]) => Partial<Store["Service"]>
}

/** Starts a relay from the current store to `broker`. It ends with the scope, or before with `end`. */
export const start = Effect.fnUntraced(function*(
  broker: MemorySink.MemoryBroker,
  { relay = Relay.layer, sink = () => ({}), store = () => ({}) }: RelayingOptions = {}
) {
  const current = yield* Store
  const scope = yield* Scope.fork(yield* Effect.scope)
  const through = Layer.effect(Sink, Effect.map(Sink, (own) => Sink.of({ ...own, ...sink(own) })))
  const context = yield* Layer.buildWithScope(
    Layer.fresh(relay).pipe(
      Layer.provide(through),
      Layer.provide(MemorySink.layer(broker)),
      Layer.provide(Layer.succeed(Store, Store.of({ ...current, ...store(current) })))
    ),
    scope
  )
  return { ...Context.get(context, Relay), end: Scope.close(scope, Exit.void) }
})

/** Publishes each batch with `publish`, whose argument `send` publishes the batch to the broker. */
export const publishingThrough =
  (publish: <A>(batch: ReadonlyArray<LogEntry>, send: Effect.Effect<A, SinkError>) => Effect.Effect<A, SinkError>) =>
  (sink: Sink["Service"]): Pick<Sink["Service"], "publish"> => ({
    publish: (identity, batch, checkpoint) => publish(batch, sink.publish(identity, batch, checkpoint))
  })

/** Starts a relay to `broker`; returns the events that the broker confirmed, in order. */
export const received = Effect.fnUntraced(function*(broker: MemorySink.MemoryBroker) {
  const events: Array<LogEntry> = []
  yield* start(broker, {
    sink: publishingThrough((batch, send) => Effect.tap(send, () => Effect.sync(() => events.push(...batch))))
  })
  return events
})

/** Runs the effect and advances virtual time, second by second, until the effect ends. */
export const whileTimePasses = Effect.fnUntraced(function*<A, E>(effect: Effect.Effect<A, E>) {
  const fiber = yield* Effect.forkChild(effect)
  while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
  return yield* Fiber.join(fiber)
})

/** Waits until the relay is in `state`; returns its status. */
export const once = (relay: Relay["Service"], state: RelayStatus["state"]) =>
  whileTimePasses(
    Effect.repeat(relay.status, { until: (status) => status.state === state, schedule: Schedule.spaced("1 second") })
  )

export const ids = (broker: MemorySink.MemoryBroker): ReadonlyArray<string> =>
  broker.events.map((event) => event.eventId)

/** The ids of the events at positions `first` to `last`, which `append` made with `mark`. */
export const expected = (first: number, last: number, mark = "event"): ReadonlyArray<string> =>
  Array.from({ length: last - first + 1 }, (_, index) => `${mark}-${first + index}`)
