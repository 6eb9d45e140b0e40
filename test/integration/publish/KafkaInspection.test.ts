import { assert, describe, layer as suite } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { controlTopicOf, progressTopicOf, stateTopicOf, topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { Sink } from "../../../src/publish/Sink.ts"
import * as Broker from "../kafka/Broker.ts"
import * as Topics from "../kafka/Topics.ts"

const { missing } = Broker
const stream = { integration: "greenhouse:acme", model: "ats.tag" } as const

const inspected = Effect.fnUntraced(function*(options: Partial<KafkaSink.KafkaOptions> & { readonly topic: string }) {
  const { brokers } = yield* Broker.Broker
  return yield* KafkaSink.inspect({ brokers, ssl: false, transactions: true, streams: [stream], ...options }, null)
})

describe.skipIf(missing !== null)(`the inspection of Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  suite(Broker.layer, { excludeTestServices: true, timeout: "5 minutes" })((it) => {
    it.effect("returns the topics that would be created, and creates none", () =>
      Effect.gen(function*() {
        const topic = `kafka-${randomUUID()}.{model}`
        const event = topicOf(topic, stream)
        const state = stateTopicOf(topic, stream)
        assert.includeMembers([...(yield* inspected({ topic, state: true })).missing], [event, state])
        assert.notIncludeMembers(yield* Topics.list, [event, state, controlTopicOf(topic)])
        yield* Topics.create(event)
        assert.notInclude((yield* inspected({ topic })).missing, event)
      }))

    it.effect("creates topics with the configured partitions and copies, and reports existing ones that differ", () =>
      Effect.gen(function*() {
        const topic = `kafka-${randomUUID()}.{model}`
        const { brokers } = yield* Broker.Broker
        const options = { brokers, ssl: false, transactions: true, streams: [stream], topic, state: true }
        const layer = KafkaSink.layer({ ...options, partitions: 3, replicationFactor: 1 })
        yield* Effect.scoped(
          Effect.flatMap(
            Layer.build(layer),
            (context) => Context.get(context, Sink).open({ store: "k3f9a2c1", generation: 1 })
          )
        )
        const events = topicOf(topic, stream)
        const { topics } = yield* Topics.admin((admin) => admin.fetchTopicMetadata({ topics: [events] }))
        assert.lengthOf(topics[0]?.partitions ?? [], 3)
        assert.deepStrictEqual((yield* inspected(options)).deviations, [])
        const { deviations } = yield* inspected({ ...options, partitions: 12, replicationFactor: 2 })
        assert.sameDeepMembers([...deviations], [
          ...[events, stateTopicOf(topic, stream)].map((topic) => ({
            topic,
            setting: "partitions" as const,
            wanted: 12,
            actual: 3
          })),
          ...[events, stateTopicOf(topic, stream), controlTopicOf(topic), progressTopicOf(topic)].map((topic) => ({
            topic,
            setting: "replicationFactor" as const,
            wanted: 2,
            actual: 1
          }))
        ])
      }))

    it.effect("reports more copies than brokers with the setting", () =>
      Effect.gen(function*() {
        const { reason } = yield* Effect.flip(
          inspected({ topic: `kafka-${randomUUID()}.{model}`, replicationFactor: 3 })
        )
        assert.include(reason.hint, "kafka.replicationFactor")
      }))

    it.effect("reports a state topic that is not compacted", () =>
      Effect.gen(function*() {
        const topic = `kafka-${randomUUID()}.{model}`
        yield* Topics.create(stateTopicOf(topic, stream))
        const { reason } = yield* Effect.flip(inspected({ topic, state: true }))
        assert.include(reason.hint, "cleanup.policy=compact")
      }))

    const asUser = Effect.fnUntraced(function*(username: string, password: string) {
      const { sasl } = yield* Broker.Broker
      return yield* inspected({
        topic: `kafka-${randomUUID()}.{model}`,
        brokers: sasl ?? [],
        sasl: { mechanism: "plain", username, password: Redacted.make(password) }
      })
    })

    it.effect.skipIf(!Broker.configured)(
      "reports a wrong password, and a principal that may not create topics, with a hint",
      () =>
        Effect.gen(function*() {
          const wrong = yield* Effect.flip(asUser("writer", "wrong"))
          assert.include(wrong.reason.hint, "KAFKA_SASL_PASSWORD", wrong.message)
          const { reason } = yield* Effect.flip(asUser("reader", "reader-secret"))
          assert.strictEqual(reason._tag, "Refused")
          assert.include(reason.hint, "Create, Write")
          yield* asUser("writer", "writer-secret")
        })
    )
  })
})
