import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { builtInModels, modelNames } from "../../../src/domain/BuiltInModels.ts"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { requiredSchemas, streamSchemas } from "../../../src/publish/kafka/PublishedTopics.ts"
import * as SchemaRegistry from "../../../src/publish/kafka/SchemaRegistry.ts"
import { progressTopicOf, topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { type Apicurio, apicurio, login, missing as noRegistry } from "../kafka/Apicurio.ts"
import * as Broker from "../kafka/Broker.ts"
import { currentDriver, describeWithDrivers } from "../kafka/Drivers.ts"
import { entries, entry } from "./Entries.ts"
import { newStore, opened, optionsOf, sinkWith, stream } from "./Publishing.ts"

const missing = Broker.missing ?? noRegistry

class Registry extends Context.Service<Registry, Apicurio>()("test/Registry") {}

/** The options of a sink with this registry. */
const registryOptions = Effect.fnUntraced(function*(
  own: Omit<Partial<KafkaSink.KafkaOptions>, "schemaRegistry"> = {},
  password = login.password
) {
  const { url } = yield* Registry
  const schemaRegistry = { url, login: { username: login.username, password: Redacted.make(password) } }
  return yield* optionsOf({ streams: [stream], state: true, schemaRegistry, ...own })
})

const compatibility = (rule: string) => ({ compatibility: rule })

const services = Layer.merge(Broker.layer, Layer.effect(Registry, apicurio))

describeWithDrivers("Apicurio Registry", missing, services, (it) => {
  for (const format of ["cloudevents", "debezium"] as const) {
    it.effect(`has the schema of every value, and Confluent's deserializer finds each value valid: ${format}`, () =>
      Effect.gen(function*() {
        const { decode } = yield* Registry
        const { events: name, identity, options, sink, states: stateTopic, topic } = yield* opened(
          yield* registryOptions({ format })
        )
        const deleted = entry({ position: 4, id: "r0", version: 2, kind: "deleted" })
        yield* sink.publish(identity, [...entries(1, 3), deleted])
        yield* sink.publishProgress(identity, [{ ...stream, generation: 1, completeTo: 0, position: 4, at: 0 }])
        const topics = [name, stateTopic, progressTopicOf(topic)]
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
        const options = yield* registryOptions({ topic: `all-${currentDriver()}-${format}.{model}`, format })
        const schemas = modelNames.flatMap((model) => streamSchemas(builtInModels, options, { ...stream, model }))
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
      const options = yield* registryOptions()
      const identity = newStore()
      const name = topicOf(options.topic, stream)
      const subject = `${name}-value`
      const { schema } = requiredSchemas(builtInModels, options).find(({ topic }) => `${topic}-value` === subject)!
      // the schema of a release before an optional property was added
      const { origin: _, ...properties } = schema().properties ?? {}
      const earlier = { topic: name, schema: () => ({ ...schema(), properties }) }
      yield* SchemaRegistry.fromOptions(options.schemaRegistry).register([earlier])
      yield* request("PUT", "/config", compatibility("BACKWARD"))
      const refusals = Effect.all([
        Effect.flip(Effect.flatMap(sinkWith(options), (sink) => sink.open(identity))),
        Effect.flip(KafkaSink.inspect(options, identity))
      ])
      for (const { message, reason } of yield* refusals) {
        assert.strictEqual(reason._tag, "Refused", message)
        assert.include(message, subject)
        assert.include(message, "FORWARD")
      }
      yield* request("PUT", `/config/${subject}`, compatibility("FORWARD"))
      yield* KafkaSink.inspect(options, identity)
      yield* Effect.flatMap(sinkWith(options), (sink) => sink.open(identity))
      yield* request("PUT", "/config", compatibility("NONE"))
    }))

  it.effect("refuses a wrong login, and the message does not contain the password", () =>
    Effect.gen(function*() {
      const { message } = yield* Effect.flip(opened(yield* registryOptions({}, "wr0ng-pass")))
      assert.match(message, /answered with status 401.*kafka\.schemaRegistry\.username/)
      assert.notInclude(message, "wr0ng-pass")
    }))
})
