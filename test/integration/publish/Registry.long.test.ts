import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import { modelNames } from "../../../src/domain/Model.ts"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { requiredSchemas, streamSchemas } from "../../../src/publish/kafka/PublishedTopics.ts"
import * as SchemaRegistry from "../../../src/publish/kafka/SchemaRegistry.ts"
import { progressTopicOf, stateTopicOf, topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { Sink } from "../../../src/publish/Sink.ts"
import { type Apicurio, apicurio, login, missing as noRegistry } from "../kafka/Apicurio.ts"
import * as Broker from "../kafka/Broker.ts"
import { currentDriver, describeWithDrivers } from "../kafka/Drivers.ts"
import { entries, entry } from "./Entries.ts"

const missing = Broker.missing ?? noRegistry

class Registry extends Context.Service<Registry, Apicurio>()("test/Registry") {}

const stream = { integration: "greenhouse:acme", model: "ats.tag" } as const
const identityOf = () => ({ store: randomUUID().replaceAll("-", ""), generation: 1 })

const optionsOf = Effect.fnUntraced(function*(topic: string, password = login.password) {
  const { brokers } = yield* Broker.Broker
  const { url } = yield* Registry
  const schemaRegistry = { url, login: { username: login.username, password: Redacted.make(password) } }
  return {
    brokers,
    ssl: false,
    transactions: true,
    driver: currentDriver(),
    streams: [stream],
    state: true,
    topic,
    schemaRegistry
  } as const
})
const sinkOf = (options: KafkaSink.KafkaOptions) =>
  Effect.map(Layer.build(KafkaSink.layer(options)), (context) => Context.get(context, Sink))

const compatibility = (rule: string) => ({ compatibility: rule })

const services = Layer.merge(Broker.layer, Layer.effect(Registry, apicurio))

describeWithDrivers("Apicurio Registry", missing, services, (it) => {
  for (const format of ["cloudevents", "debezium"] as const) {
    it.effect(`has the schema of every value, and Confluent's deserializer finds each value valid: ${format}`, () =>
      Effect.gen(function*() {
        const { decode } = yield* Registry
        const topic = `registry-${randomUUID()}.{model}`
        const identity = identityOf()
        const options = { ...yield* optionsOf(topic), format }
        const sink = yield* sinkOf(options)
        yield* sink.open(identity)
        const deleted = entry({ position: 4, id: "r0", version: 2, kind: "deleted" })
        yield* sink.publish(identity, [...entries(1, 3), deleted])
        yield* sink.publishProgress(identity, [{ ...stream, generation: 1, completeTo: 0, position: 4, at: 0 }])
        const topics = [topicOf(topic, stream), stateTopicOf(topic, stream), progressTopicOf(topic)]
        const [events = [], states = [], progress = []] = yield* decode(options.brokers, topics)
        assert.lengthOf(events.filter((value) => value !== null), 4)
        assert.lengthOf(events, format === "debezium" ? 5 : 4)
        assert.sameDeepMembers(states.filter((value) => value !== null), [
          { id: "r0", version: 1, name: "Ada Łovelace" },
          { id: "r1", version: 1, name: "Ada Łovelace" },
          { id: "r2", version: 1, name: "Ada Łovelace" }
        ])
        assert.lengthOf(progress, 1)
      }))

    it.effect(`registers the schemas of all models, and finds the same ids again: ${format}`, () =>
      Effect.gen(function*() {
        const options = { ...yield* optionsOf(`all-${currentDriver()}-${format}.{model}`), format }
        const schemas = modelNames.flatMap((model) => streamSchemas(options, { ...stream, model }))
        const idsOf = Effect.fnUntraced(function*() {
          const registry = SchemaRegistry.fromOptions(options.schemaRegistry)
          yield* registry.check(schemas)
          yield* registry.register(schemas)
          return schemas.map(({ topic }) => registry.frame(topic, "").readInt32BE(1))
        })
        const ids = yield* idsOf()
        assert.strictEqual(new Set(ids).size, schemas.length)
        assert.deepStrictEqual(yield* idsOf(), ids)
      }))
  }

  it.effect("refuses an incompatible schema, and accepts it with the compatibility that the message names", () =>
    Effect.gen(function*() {
      const { request } = yield* Registry
      const topic = `refused-${randomUUID()}.{model}`
      const options = yield* optionsOf(topic)
      const identity = identityOf()
      const subject = `${topicOf(topic, stream)}-value`
      const { schema } = requiredSchemas(options).find(({ topic }) => `${topic}-value` === subject)!
      // the schema of a release before an optional property was added
      const { origin: _, ...properties } = schema().properties ?? {}
      const earlier = { topic: topicOf(topic, stream), schema: () => ({ ...schema(), properties }) }
      yield* SchemaRegistry.fromOptions(options.schemaRegistry).register([earlier])
      yield* request("PUT", "/config", compatibility("BACKWARD"))
      const refusals = Effect.all([
        Effect.flip(Effect.flatMap(sinkOf(options), (sink) => sink.open(identity))),
        Effect.flip(KafkaSink.inspect(options, identity))
      ])
      for (const { message, reason } of yield* refusals) {
        assert.strictEqual(reason._tag, "Refused", message)
        assert.include(message, subject)
        assert.include(message, "FORWARD")
      }
      yield* request("PUT", `/config/${subject}`, compatibility("FORWARD"))
      yield* KafkaSink.inspect(options, identity)
      yield* Effect.flatMap(sinkOf(options), (sink) => sink.open(identity))
      yield* request("PUT", "/config", compatibility("NONE"))
    }))

  it.effect("refuses a wrong login, and the message does not contain the password", () =>
    Effect.gen(function*() {
      const options = yield* optionsOf(`login-${randomUUID()}.{model}`, "wr0ng-pass")
      const { message } = yield* Effect.flip(Effect.flatMap(sinkOf(options), (sink) => sink.open(identityOf())))
      assert.match(message, /answered with status 401.*kafka\.schemaRegistry\.username/)
      assert.notInclude(message, "wr0ng-pass")
    }))
})
