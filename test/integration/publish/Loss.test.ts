import { assert } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import kafkajs from "kafkajs"
import * as StoreAdoption from "../../../src/capture/rewrite/StoreAdoption.ts"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import { storeFile } from "../../support/TemporaryFolder.ts"
import * as Broker from "../kafka/Broker.ts"
import { describeWithDrivers } from "../kafka/Drivers.ts"
import * as Kcat from "../kafka/Kcat.ts"
import * as Topics from "../kafka/Topics.ts"
import { entries } from "./Entries.ts"
import { append } from "./Log.ts"
import { opened, optionsOf, startRelay, stream } from "./Publishing.ts"

const missing = Broker.missing ?? Kcat.missing
/** Waits until the relay has stopped; returns its reason. */
const stopped = ({ status }: Relay["Service"]) =>
  Effect.repeat(status, { until: ({ state }) => state === "stopped", schedule: Schedule.spaced("50 millis") }).pipe(
    Effect.map(({ reason }) => reason!)
  )

/** Advances the clock by these minutes. */
const inMinutes = (minutes: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Clock.Clock, (clock) =>
    Effect.provideService(effect, Clock.Clock, {
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
      currentTimeMillis: clock.currentTimeMillis,
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      currentTimeNanos: clock.currentTimeNanos,
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe() + BigInt(minutes) * 60_000_000_000n,
      monotonicTimeNanos: Effect.map(clock.monotonicTimeNanos, (time) => time + BigInt(minutes) * 60_000_000_000n),
      sleep: (duration) => clock.sleep(duration)
    }))

const memory = MemoryStore.layer()

const services = Layer.merge(Broker.layer, Broker.separateOnRequest("auto.create.topics.enable=true\n"))

describeWithDrivers("a lost topic", missing, services, (it) => {
  it.effect(
    "that was deleted while Rollcall runs stops the relay, is not created on restart, and is published again by store adopt (K3)",
    () =>
      Effect.gen(function*() {
        const options = yield* optionsOf({ streams: [stream] })
        const topic = topicOf(options.topic, stream)
        const file = yield* storeFile
        yield* Effect.gen(function*() {
          const { identity } = yield* Store
          yield* append(120)
          const relay = yield* startRelay(options)
          yield* relay.awaitPosition(120)
          yield* Topics.remove(topic)
          yield* Topics.removed(topic)
          yield* append(30)
          const reason = yield* Effect.timeout(stopped(relay), "1 minute")
          assert.include(reason.message, `topic ${topic} was deleted: the 120 events`)
          assert.include(reason.message, "positions 1 to 120")
          assert.include(reason.hint, "rollcall store adopt")
          assert.strictEqual((yield* relay.status).position, 120)
          yield* relay.end
          const again = yield* startRelay(options)
          assert.strictEqual((yield* stopped(again)).message, reason.message)
          yield* again.end
          assert.strictEqual((yield* KafkaSink.inspect(options, identity)).blocker?.message, reason.message)
          assert.isFalse(yield* Topics.exists(topic))
          yield* Effect.flatMap(
            StoreAdoption.plan(identity.generation),
            (plan) => StoreAdoption.adopt(plan, () => null)
          )
        }).pipe(Effect.provide(Sqlite.layer({ file })))
        yield* Effect.gen(function*() {
          const { logRange } = yield* Store
          const relay = yield* startRelay(options)
          const { state } = yield* relay.awaitPosition((yield* logRange).newest)
          assert.strictEqual(state, "running")
        }).pipe(Effect.provide(Sqlite.layer({ file })))
        const { brokers } = yield* Broker.Broker
        assert.strictEqual(
          new Set((yield* Kcat.read(brokers, topic)).map(({ key }) => key)).size,
          10
        )
      })
  )

  it.effect.each([{ transactions: true }, { transactions: false }])(
    "that is created again immediately gets no further events (transactions: $transactions) (K3)",
    ({ transactions }) =>
      Effect.gen(function*() {
        const { brokers } = yield* Broker.Broker
        const options = yield* optionsOf({ streams: [stream], transactions })
        const topic = topicOf(options.topic, stream)
        yield* append(120)
        const relay = yield* startRelay(options)
        yield* relay.awaitPosition(120)
        yield* Topics.remove(topic)
        yield* Topics.removed(topic)
        yield* Topics.create(topic, 6)
        yield* append(30)
        const reason = yield* Effect.timeout(stopped(relay), "1 minute")
        assert.include(reason.message, `topic ${topic} was deleted and created again`)
        assert.include(reason.message, "the 120 events")
        assert.strictEqual((yield* relay.status).position, 120)
        if (transactions) assert.deepStrictEqual(yield* Kcat.read(brokers, topic), [])
      }).pipe(Effect.provide(memory))
  )

  it.effect(
    "prevents progress reports while it is missing, even if no further event goes to it (K3)",
    () =>
      Effect.gen(function*() {
        const { identity, sink, states: state } = yield* opened({ state: true, streams: [stream] })
        yield* sink.publish(identity, entries(1, 7))
        const progress = { ...stream, generation: 1, completeTo: 1000, position: 7, at: 2000 }
        yield* sink.publishProgress(identity, [progress])
        yield* Topics.remove(state)
        yield* Topics.removed(state)
        // a broker may refuse requests for a partition while it removes or creates it; the relay then tries again
        const publish = Effect.retry(sink.publishProgress(identity, [progress]), {
          while: ({ reason }) => reason.retryable,
          schedule: Schedule.spaced("50 millis")
        })
        const { reason } = yield* Effect.flip(publish)
        assert.strictEqual(reason._tag, "Refused")
        assert.include(reason.message, `topic ${state} was deleted: the 7 events`)
        yield* Topics.create(state, 6, { "cleanup.policy": "compact" })
        const again = yield* Effect.flip(publish.pipe(inMinutes(2)))
        assert.include(again.reason.message, `topic ${state} was deleted and created again`)
      })
  )

  it.effect.skipIf(Broker.separateMissing !== null)(
    "that a consumer's subscription creates again is not mistaken for the old one (K3)",
    () =>
      Effect.gen(function*() {
        const { brokers } = yield* Broker.Broker
        const options = yield* optionsOf({ streams: [stream] })
        const topic = topicOf(options.topic, stream)
        yield* append(120)
        const relay = yield* startRelay(options)
        yield* relay.awaitPosition(120)
        yield* Topics.remove(topic)
        yield* Topics.removed(topic)
        // Requests the topic's metadata, like a consumer that may create topics.
        const consumer = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING }).producer({
          allowAutoTopicCreation: true
        })
        yield* Effect.promise(async () => {
          await consumer.connect()
          await consumer.send({ topic, messages: [] })
          await consumer.disconnect()
        })
        assert.isTrue(yield* Topics.exists(topic))
        yield* append(30)
        const reason = yield* Effect.timeout(stopped(relay), "1 minute")
        assert.include(reason.message, `topic ${topic} was deleted and created again`)
        assert.strictEqual((yield* relay.status).position, 120)
      }).pipe(
        Effect.provide(memory),
        Effect.provideServiceEffect(Broker.Broker, Effect.flatten(Broker.Separate))
      )
  )
})
