import { assert } from "@effect/vitest"
import { Ajv } from "ajv"
import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { builtInModels } from "../../../src/domain/BuiltInModels.ts"
import { recordEntryOf } from "../../../src/domain/Model.ts"
import * as Events from "../../../src/events/Events.ts"
import { envelopeSchemaDocumentOf } from "../../../src/publish/kafka/Debezium.ts"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { progressTopicOf, topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import * as Broker from "../kafka/Broker.ts"
import { describeWithDrivers } from "../kafka/Drivers.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { login, type TestRegistry, testRegistry } from "../kafka/TestRegistry.ts"
import { entries, entry } from "./Entries.ts"
import { newStore, newTemplate, opened, optionsOf, sinkOf, stream } from "./Publishing.ts"

const tagEntry = recordEntryOf(builtInModels, "ats.tag")

const missing = Broker.missing ?? Kcat.missing

const messagesIn = (topic: string) => Effect.flatMap(Broker.Broker, ({ brokers }) => Kcat.read(brokers, topic))

const validator = (schema: object, ajv = new Ajv2020({ strict: false })) => {
  addFormats.default(ajv)
  return ajv.compile(schema)
}

const registryOf = ({ url }: TestRegistry, password = login.password) => ({
  url,
  login: { username: login.username, password: Redacted.make(password) }
})

/** The JSON and the schema id of a value with such an id. Ids are below 128, so kcat shows the bytes unchanged. */
const unframed = (payload: string | null) => {
  assert.isNotNull(payload)
  assert.strictEqual(payload.slice(0, 4), "\0\0\0\0")
  return { id: payload.charCodeAt(4), value: JSON.parse(payload.slice(5)) }
}

describeWithDrivers("the form of values", missing, Broker.layer, (it) => {
  it.effect("debezium: every change is an envelope with its operation, and a deleted record's key gets a tombstone", () =>
    Effect.gen(function*() {
      const { identity, read, sink, states: stateTopic } = yield* opened({ format: "debezium", state: true })
      const changes = [
        { ...entry({ position: 1, id: "old", version: 1 }), origin: "backfill" as const },
        entry({ position: 2, id: "new", version: 1 }),
        entry({ position: 3, id: "new", version: 2 }),
        entry({ position: 4, id: "new", version: 3, kind: "deleted" })
      ]
      yield* sink.publish(identity, changes)
      const messages = yield* read()
      const validate = validator(envelopeSchemaDocumentOf(tagEntry))
      const envelopes = messages.flatMap(({ payload }) => payload === null ? [] : [JSON.parse(payload)])
      for (const envelope of envelopes) assert.isTrue(validate(envelope), JSON.stringify(validate.errors))
      const ofNew = messages.filter(({ key }) => key.endsWith("/new"))
      assert.deepStrictEqual(
        ofNew.map(({ payload }) => payload === null ? null : JSON.parse(payload).op),
        ["c", "u", "d", null]
      )
      const types = ofNew.map(({ headers }) => headers["content-type"] ?? null)
      assert.deepStrictEqual(types, ["application/json", "application/json", "application/json", null])
      const [old] = envelopes.filter(({ source }) => source.record_id === "old")
      assert.deepInclude(old, { op: "r", before: null, transaction: null })
      assert.deepInclude(old.source, {
        connector: "rollcall",
        snapshot: "true",
        db: "greenhouse:acme",
        table: "ats.tag",
        generation: 1,
        record_version: 1,
        event_id: "event-1"
      })
      const updated = JSON.parse(ofNew[1]!.payload!)
      assert.deepStrictEqual([updated.before.version, updated.after.version], [1, 2])
      // the state topic has the same form with every format
      const states = yield* read(stateTopic)
      assert.strictEqual(states.filter(({ payload }) => payload === null).length, 1)
      assert.strictEqual(states[0]!.headers["ce_type"], "rollcall.ats.tag.state")
    }))

  it.effect("connect: the events and the tombstone of a record have one key and one partition", () =>
    Effect.gen(function*() {
      const { identity, read, sink, topic } = yield* opened({ format: "connect" })
      yield* sink.publish(identity, [
        entry({ position: 1, id: "r", version: 1 }),
        entry({ position: 2, id: "other", version: 1 }),
        entry({ position: 3, id: "r", version: 2, kind: "deleted" })
      ])
      const key = { integration: "greenhouse:acme", id: "r" }
      const own = (yield* read()).filter((message) => JSON.parse(message.key).payload.id === "r")
      assert.strictEqual(new Set(own.map(({ partition }) => partition)).size, 1)
      assert.deepStrictEqual(own.map((message) => JSON.parse(message.key).payload), [key, key, key])
      const payloads = own.map(({ payload }) => payload === null ? null : JSON.parse(payload).payload)
      assert.deepStrictEqual(payloads.map((one) => one && [one.op, one.before?.id ?? null, one.after?.id ?? null]), [
        ["c", null, "r"],
        ["d", "r", null],
        null
      ])
      const { message } = yield* Effect.flip(
        Effect.flatMap(sinkOf({ topic, format: "debezium", streams: [stream] }), (sink) => sink.open(identity))
      )
      assert.include(message, "holds 3 events in Debezium's form with schemas")
    }))

  it.effect("debezium: tombstones can be left out, and an envelope too large for the topic has the event's address", () =>
    Effect.gen(function*() {
      const { identity, read, sink } = yield* opened({ format: "debezium", tombstones: false })
      const large = JSON.stringify({ id: "r", text: "x".repeat(1_200_000) })
      yield* sink.publish(identity, [
        entry({ position: 1, id: "r", version: 1, after: large }),
        entry({ position: 2, id: "r", version: 2, kind: "deleted" })
      ])
      const [stub, deleted, ...others] = (yield* read()).map(({ payload }) => JSON.parse(payload ?? "null"))
      assert.deepStrictEqual(others, [])
      assert.strictEqual(deleted.op, "d")
      assert.deepInclude(stub, { op: "c", before: null, after: null })
      assert.deepInclude(stub.source, { stub: true, log: `/v1/events?after=${identity.store}-1-0&limit=1` })
      assert.isTrue(validator(envelopeSchemaDocumentOf(tagEntry))(stub))
    }))

  it.effect("a topic with events keeps its form: another one is refused until the store is adopted", () =>
    Effect.gen(function*() {
      const { identity, sink, topic } = yield* opened()
      yield* sink.publish(identity, entries(1, 3))
      const { reason } = yield* Effect.flip(
        Effect.flatMap(sinkOf({ topic, format: "debezium", streams: [stream] }), (sink) => sink.open(identity))
      )
      assert.strictEqual(reason._tag, "Refused")
      assert.include(reason.message, "holds 3 events in the default form")
      assert.include(reason.hint, "kafka.format")
      const inspected = yield* KafkaSink.inspect(
        yield* optionsOf({ topic, format: "debezium", streams: [stream] }),
        identity
      )
      assert.include(inspected.blocker?.message, "holds 3 events in the default form")
      // as before: continues; in a later generation: allowed
      assert.strictEqual((yield* sink.open(identity))?.position, 3)
      const adopted = { ...identity, generation: 2 }
      const other = yield* sinkOf({ topic, format: "debezium", streams: [stream] })
      yield* other.open(adopted)
      yield* other.publish(adopted, entries(1, 1))
      const back = yield* Effect.flip(
        Effect.flatMap(sinkOf({ topic, streams: [stream] }), (sink) => sink.open(adopted))
      )
      assert.include(back.message, "1 events in Debezium's form")
    }))

  it.effect("with a registry every value has the id of its schema before it, and matches that schema", () =>
    Effect.gen(function*() {
      const registry = yield* testRegistry
      for (const format of ["cloudevents", "debezium"] as const) {
        const schemaRegistry = registryOf(registry)
        const { events, identity, options, read, sink, states, topic } = yield* opened({
          format,
          state: true,
          schemaRegistry
        })
        yield* sink.publish(identity, [
          ...entries(1, 3),
          entry({ position: 4, id: "r0", version: 2, kind: "deleted" })
        ])
        yield* sink.publishProgress(identity, [{ ...stream, generation: 1, completeTo: 0, position: 4, at: 0 }])
        const topics = [events, states, progressTopicOf(topic)]
        for (const name of topics) {
          const messages = (yield* read(name)).filter(({ payload }) => payload !== null)
          assert.isAbove(messages.length, 0)
          for (const message of messages) {
            const { id, value } = unframed(message.payload)
            const registered = registry.schemas.get(id)
            assert.isTrue(registered?.subjects.has(`${name}-value`), name)
            const validate = validator(JSON.parse(registered!.schema), new Ajv({ strict: false }))
            assert.isTrue(validate(value), `${name}: ${JSON.stringify(validate.errors)}`)
          }
        }
        const [event] = yield* read()
        if (format === "cloudevents") {
          assert.strictEqual(Events.fromKafka({ headers: event!.headers, value: event!.payload }).version, 1)
        }
        // a second process finds the same ids, and its checkpoint
        const count = registry.schemas.size
        const next = yield* sinkOf(options)
        assert.strictEqual((yield* next.open(identity))?.position, 4)
        assert.strictEqual(registry.schemas.size, count)
      }
    }))

  it.effect("nothing is published while the registry does not respond, and all events in order afterwards", () =>
    Effect.gen(function*() {
      const registry = yield* testRegistry
      const [identity, topic] = [newStore(), newTemplate()]
      const sink = yield* sinkOf({ topic, streams: [stream], schemaRegistry: registryOf(registry) })
      yield* registry.stop
      const closed = yield* Effect.flip(sink.open(identity))
      assert.strictEqual(closed.reason._tag, "Unreachable")
      assert.match(
        closed.message,
        /the schema registry 127\.0\.0\.1:\d+ did not respond \(ECONNREFUSED\).*The schema registry is not available/
      )
      yield* registry.start
      yield* sink.open(identity)
      yield* sink.publish(identity, entries(1, 2))
      // an outage matters only for topics whose schema is not registered yet
      yield* registry.stop
      yield* sink.publish(identity, entries(3, 4))
      const added = { ...stream, model: "ats.offer" } as const
      const mixed = [entry({ position: 5 }), entry({ position: 6, model: "ats.offer" })]
      assert.strictEqual((yield* Effect.flip(sink.publish(identity, mixed))).reason._tag, "Unreachable")
      assert.lengthOf(yield* messagesIn(topicOf(topic, stream)), 4)
      yield* registry.start
      assert.strictEqual((yield* sink.open(identity))?.position, 4)
      yield* sink.publish(identity, mixed)
      const ids = (yield* messagesIn(topicOf(topic, stream))).map(({ headers }) => headers["ce_id"])
      assert.sameMembers(ids, ["event-1", "event-2", "event-3", "event-4", "event-5"])
      assert.lengthOf(yield* messagesIn(topicOf(topic, added)), 1)
    }))

  it.effect("a refused login or schema is reported with what to do, by the sink and by doctor's inspection", () =>
    Effect.gen(function*() {
      const registry = yield* testRegistry
      const [identity, topic] = [newStore(), newTemplate()]
      const openFails = (own: Parameters<typeof sinkOf>[0]) =>
        Effect.flip(Effect.flatMap(sinkOf({ streams: [stream], topic, ...own }), (sink) => sink.open(identity)))
      const failuresOf = (own: Parameters<typeof sinkOf>[0]) =>
        Effect.all([
          openFails(own),
          Effect.flip(
            Effect.flatMap(
              optionsOf({ streams: [stream], topic, ...own }),
              (all) => KafkaSink.inspect(all, identity)
            )
          )
        ])
      for (const error of yield* failuresOf({ schemaRegistry: registryOf(registry, "wr0ng-pass") })) {
        assert.strictEqual(error.reason._tag, "Refused")
        assert.match(error.message, /answered with status 401.*kafka\.schemaRegistry\.username/)
        assert.notInclude(error.message, "wr0ng-pass")
      }
      const subject = `${progressTopicOf(topic)}-value`
      registry.schemas.set(1, { schema: "{}", subjects: new Set([subject]) })
      registry.compatible = false
      const schemaRegistry = registryOf(registry)
      for (const { message } of yield* failuresOf({ schemaRegistry })) {
        assert.include(message, subject)
        assert.include(message, "compatibility to FORWARD")
      }
      registry.compatible = true
      const right = yield* optionsOf({ streams: [stream], topic, schemaRegistry })
      assert.isAbove((yield* KafkaSink.inspect(right, identity)).missing.length, 0)
      assert.strictEqual(registry.schemas.size, 1)
      const lost = yield* openFails({ schemaRegistry: { ...schemaRegistry, url: `${registry.url}/other` } })
      assert.include(lost.message, "not the address of a schema registry")
    }))
})
