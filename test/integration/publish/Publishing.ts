/** Sinks on the broker of a test. Each has a topic template of its own, because the tests share the broker. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import type { LogIdentity } from "../../../src/domain/ChangeEvent.ts"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { stateTopicOf, topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import { Sink } from "../../../src/publish/Sink.ts"
import { Store } from "../../../src/store/Store.ts"
import { Broker } from "../kafka/Broker.ts"
import { currentDriver } from "../kafka/Drivers.ts"
import * as Kcat from "../kafka/Kcat.ts"

/** The stream of the handmade entries. */
export const stream = { integration: "greenhouse:acme", model: "ats.tag" } as const

export const newTemplate = () => `test-${randomUUID()}.{model}`
export const newStore = (): LogIdentity => ({ store: randomUUID().replaceAll("-", ""), generation: 1 })

/** The options of a sink with the driver that the running test uses. */
export const optionsOf = <Own extends Partial<KafkaSink.KafkaOptions>>(own: Own) =>
  Effect.map(Broker, ({ brokers }) => ({
    brokers,
    ssl: false,
    transactions: true,
    driver: currentDriver(),
    topic: newTemplate(),
    ...own
  }))

export const sinkWith = (options: KafkaSink.KafkaOptions) =>
  Effect.map(Layer.build(KafkaSink.layer(options)), (context) => Context.get(context, Sink))
export const sinkOf = (own: Partial<KafkaSink.KafkaOptions> = {}) => Effect.flatMap(optionsOf(own), sinkWith)

/** A sink that a new store has opened, and the topics of the handmade entries. */
export const opened = Effect.fnUntraced(function*(own: Partial<KafkaSink.KafkaOptions> = {}) {
  const options = yield* optionsOf(own)
  const { brokers, topic } = options
  const [events, states] = [topicOf(topic, stream), stateTopicOf(topic, stream)]
  const sink = yield* sinkWith(options)
  const identity = newStore()
  yield* sink.open(identity)
  return {
    sink,
    identity,
    options,
    topic,
    events,
    states,
    /** The messages of a topic; by default, the committed ones of the events. */
    read: (name = events, isolation?: Parameters<typeof Kcat.read>[2]) => Kcat.read(brokers, name, isolation)
  }
})

/** Starts a relay of the current store. It ends with the scope, or before with `end`. */
export const startRelay = Effect.fnUntraced(function*(own: Partial<KafkaSink.KafkaOptions>) {
  const sink = KafkaSink.layer(yield* optionsOf(own))
  const store = Layer.succeed(Store, yield* Store)
  const scope = yield* Scope.fork(yield* Effect.scope)
  const context = yield* Layer.buildWithScope(Layer.provide(Layer.fresh(Relay.layer), [sink, store]), scope)
  return { ...Context.get(context, Relay), end: Scope.close(scope, Exit.void) }
})
