import { assert, describe, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { controlTopicOf, progressTopicOf, stateTopicOf, topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import * as Broker from "../kafka/Broker.ts"
import * as Topics from "../kafka/Topics.ts"
import { newTemplate, opened, optionsOf, stream } from "./Publishing.ts"

const { missing } = Broker
const inspected = (own: Partial<KafkaSink.KafkaOptions> = {}) =>
  Effect.flatMap(optionsOf({ streams: [stream], ...own }), (options) => KafkaSink.inspect(options, null))

describe.skipIf(missing !== null)(`the inspection of Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  suite(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
    it.effect("returns the topics that would be created, and creates none", () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const event = topicOf(topic, stream)
        const state = stateTopicOf(topic, stream)
        assert.includeMembers([...(yield* inspected({ topic, state: true })).missing], [event, state])
        assert.notIncludeMembers(yield* Topics.list, [event, state, controlTopicOf(topic)])
        yield* Topics.create(event)
        assert.notInclude((yield* inspected({ topic })).missing, event)
      }))

    it.effect("creates topics with the configured partitions and copies, and reports existing ones that differ", () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const options = { streams: [stream], topic, state: true }
        const { events } = yield* opened({ ...options, partitions: 3, replicationFactor: 1 })
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
          inspected({ replicationFactor: 3 })
        )
        assert.include(reason.hint, "kafka.replicationFactor")
      }))

    const asUser = Effect.fnUntraced(function*(username: string, password: string) {
      const { sasl } = yield* Broker.Broker
      return yield* inspected({
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
