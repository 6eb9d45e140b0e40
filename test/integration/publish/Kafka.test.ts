import { assert } from "@effect/vitest"
import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import kafkajs from "kafkajs"
import { randomUUID } from "node:crypto"
import { builtInModels } from "../../../src/domain/BuiltInModels.ts"
import { recordEntryOf } from "../../../src/domain/Model.ts"
import { partitionOf } from "../../../src/publish/kafka/driver/Partitions.ts"
import { controlTopicOf, progressTopicOf, stateTopicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { eventSchemaDocumentOf } from "../../../src/publish/SchemaDocuments.ts"
import { checkpointOf, type RecordKey } from "../../../src/publish/Sink.ts"
import * as Broker from "../kafka/Broker.ts"
import { currentDriver, describeWithDrivers } from "../kafka/Drivers.ts"
import * as Kcat from "../kafka/Kcat.ts"
import * as Topics from "../kafka/Topics.ts"
import { entries, entry } from "./Entries.ts"
import { newTemplate, opened, sinkOf, stream } from "./Publishing.ts"

const tagEntry = recordEntryOf(builtInModels, "ats.tag")

const missing = Broker.missing ?? Kcat.missing

describeWithDrivers("Kafka", missing, Broker.layer, (it) => {
  // numbers of Kafka's protocol
  for (const [compression, type] of [["gzip", 1], ["snappy", 2], ["lz4", 3], ["zstd", 4]] as const) {
    it.effect(`events are compressed with ${compression}, and other clients read them`, () =>
      Effect.gen(function*() {
        const { identity, read, sink, states } = yield* opened({ compression, state: true })
        yield* sink.publish(identity, entries(1, 200))
        assert.lengthOf(yield* read(), 200)
        assert.lengthOf(yield* read(states), 200)
        // with both drivers, kafkajs reads: the compressed control topic for `open`, the compressed state topic for `reconcile`
        const codecs: Record<number, unknown> = kafkajs.CompressionCodecs
        const codec = codecs[type]
        let used = 0
        codecs[type] = () => {
          used += 1
          return typeof codec === "function" ? codec() : codec
        }
        yield* Effect.addFinalizer(() => Effect.sync(() => codecs[type] = codec))
        assert.strictEqual((yield* sink.open(identity))?.position, 200)
        assert.isAbove(used, 0)
        const seen: Array<RecordKey> = []
        used = 0
        yield* sink.reconcile(identity, [stream], (records) => {
          seen.push(...records)
          return Effect.succeed([])
        })
        assert.isAbove(used, 0)
        assert.strictEqual(new Set(seen.map(({ id }) => id)).size, 10)
      }))
  }

  it.effect("a published event is a CloudEvent that the official library and the published schema accept", () =>
    Effect.gen(function*() {
      const { identity, read, sink } = yield* opened()
      const change = entry({ position: 11, id: "7f/é", version: 2 })
      yield* sink.publish(identity, [change, entry({ position: 12, id: "7f/é", version: 3, kind: "deleted" })])

      const [message, deleted] = yield* read()
      assert.isDefined(message)
      assert.isDefined(deleted)
      assert.strictEqual(message.key, "greenhouse:acme/ats.tag/7f/é")
      assert.strictEqual(message.headers["content-type"], "application/json")
      const event = Kcat.cloudEvent(message)
      assert.isTrue(event.validate())
      assert.deepInclude({ ...event }, {
        specversion: "1.0",
        id: "event-11",
        source: "/integrations/greenhouse:acme",
        type: "rollcall.ats.tag.updated",
        subject: "7f/é",
        time: "2025-11-21T10:00:01.000Z",
        datacontenttype: "application/json",
        position: `${identity.store}-1-11-${change.chain}`,
        sequence: "0000000001-0000000000000011"
      })
      const ajv = new Ajv2020({ strict: false })
      addFormats.default(ajv)
      const valid = ajv.compile(eventSchemaDocumentOf(tagEntry))
      for (const { payload } of [message, deleted]) {
        assert.isTrue(valid(JSON.parse(payload ?? "")), JSON.stringify(valid.errors))
      }
      assert.deepInclude(JSON.parse(message.payload ?? ""), {
        before: JSON.parse(change.before ?? ""),
        after: JSON.parse(change.after ?? ""),
        changes: JSON.parse(change.changes)
      })
    }))

  it.effect("the state topic is compacted and has the latest content of each record, null after deletion", () =>
    Effect.gen(function*() {
      const { identity, read, sink, states } = yield* opened({ state: true })
      const changes = [
        entry({ position: 1, id: "a", version: 1 }),
        entry({ position: 2, id: "a", version: 2 }),
        entry({ position: 3, id: "a", version: 3, kind: "deleted" })
      ]
      yield* sink.publish(identity, changes)
      const messages = yield* read(states)
      assert.deepStrictEqual(
        messages.map((message) => [message.payload, message.headers.ce_recordversion, message.headers.ce_type]),
        changes.map((change) => [change.after, String(change.version), "rollcall.ats.tag.state"])
      )
      assert.strictEqual(yield* Topics.setting(states, "cleanup.policy"), "compact")
    }))

  it.effect("records that the store does not have are removed from the state topic, in bounded memory (X14)", () =>
    Effect.gen(function*() {
      const { identity, read, sink, states } = yield* opened({ state: true })
      const after = JSON.stringify({ text: "x".repeat(2000) })
      const records = Array.from(
        { length: 3000 },
        (_, index) => entry({ position: index + 1, id: `r${index}`, version: 1, kind: "created", after })
      )
      for (let first = 0; first < records.length; first += 500) {
        yield* sink.publish(identity, records.slice(first, first + 500))
      }
      const gone = entry({ position: 3001, id: "r0", version: 2, kind: "deleted" })
      yield* sink.publish(identity, [gone])

      let most = 0
      const seen = new Map<string, RecordKey>()
      yield* sink.reconcile({ ...identity, generation: 2 }, [stream], (some) =>
        Effect.sync(() => {
          most = Math.max(most, some.length)
          for (const record of some) seen.set(record.id, record)
          return some.filter(({ id }) => id.endsWith("7"))
        }))
      assert.deepStrictEqual(seen.get("r17"), { ...stream, id: "r17" })
      assert.isBelow(most, 1000)
      const state = new Map<string, Kcat.Message>()
      for (const message of yield* read(states)) state.set(message.key, message)
      const live = [...state.values()].filter(({ payload }) => payload !== null)
      assert.strictEqual(live.length, 3000 - 300 - 1)
      assert.isFalse(live.some(({ key }) => key.endsWith("7")))
      const removal = state.get("greenhouse:acme/ats.tag/r17")
      assert.deepInclude(removal?.headers, {
        ce_type: "rollcall.ats.tag.state",
        ce_subject: "r17",
        ce_generation: "2",
        ce_recordversion: "0"
      })
    }))

  it.effect("after partitions were added, an adoption leaves no record in the partition that its key had before (K2, X14)", () =>
    Effect.gen(function*() {
      const { identity, read, sink, states } = yield* opened({ state: true, partitions: 2 })
      const records = Array.from(
        { length: 20 },
        (_, index) => entry({ position: index + 1, id: `r${index}`, version: 1, kind: "created", after: "{}" })
      )
      yield* sink.publish(identity, records)
      yield* Topics.grow(states, 5)

      const adopted = { ...identity, generation: 2 }
      yield* sink.open(adopted)
      yield* sink.reconcile(adopted, [stream], (some) => Effect.succeed(some.filter(({ id }) => id.endsWith("7"))))
      const kept = records.slice(0, 7).map((record) => ({ ...record, generation: 2 }))
      yield* sink.publish(adopted, kept)

      const places = new Map<string, Kcat.Message>()
      for (const message of yield* read(states)) places.set(`${message.partition} ${message.key}`, message)
      for (const { headers, key, partition, payload } of places.values()) {
        if (payload !== null) assert.strictEqual(partition, partitionOf(key, 5), key)
        else assert.strictEqual(headers.ce_generation, key.endsWith("7") ? "2" : "1", key)
      }
      const live = [...places.values()].filter(({ payload }) => payload !== null).map(({ key }) => key)
      for (const { id } of kept) assert.include(live, `greenhouse:acme/ats.tag/${id}`)
      assert.isFalse(live.some((key) => key.endsWith("7")))
    }))

  it.effect("records of configured streams that the store does not know yet are removed from the state topic (X14)", () =>
    Effect.gen(function*() {
      const { identity, read, sink, states } = yield* opened({ state: true, streams: [stream] })
      yield* sink.publish(identity, [entry({ position: 1, id: "r1", version: 1, kind: "created", after: "{}" })])
      assert.lengthOf(yield* read(states), 1)
      const seen: Array<RecordKey> = []
      yield* sink.reconcile({ ...identity, generation: 2 }, [], (some) =>
        Effect.sync(() => {
          seen.push(...some)
          return []
        }))
      assert.deepStrictEqual(seen, [{ ...stream, id: "r1" }])
    }))

  it.effect("progress is in a compacted topic of the template, with the stream's name as key and the store's id", () =>
    Effect.gen(function*() {
      const { identity, read, sink, topic } = yield* opened()
      const integration = `test:${randomUUID()}`
      const progress = {
        integration,
        model: "ats.tag",
        generation: 3,
        completeTo: 1000,
        position: 12,
        at: 2000
      } as const
      yield* sink.publishProgress(identity, [progress, { ...progress, completeTo: 5000 }])
      const own = (yield* read(progressTopicOf(topic))).filter(({ key }) => key.startsWith(integration))
      assert.deepStrictEqual(
        own.map(({ key, payload }) => [key, JSON.parse(payload ?? "")]),
        [1, 5].map((second) => [
          `${integration}/ats.tag`,
          {
            store: identity.store,
            generation: 3,
            complete_to: `1970-01-01T00:00:0${second}.000Z`,
            position: `${identity.store}-1-12`,
            at: "1970-01-01T00:00:02.000Z"
          }
        ])
      )
      assert.strictEqual(yield* Topics.setting(progressTopicOf(topic), "cleanup.policy"), "compact")
    }))

  it.effect("a stub contains the path where the whole event can be read (K1)", () =>
    Effect.gen(function*() {
      const { identity, read, sink, states } = yield* opened({ state: true })
      const large = entry({
        position: 4,
        id: "a",
        version: 1,
        after: JSON.stringify({ id: "a", text: "x".repeat(2e6) })
      })
      yield* sink.publish(identity, [large])
      const [stub] = yield* read()
      const data = JSON.parse(stub?.payload ?? "")
      assert.deepInclude(data, {
        stub: true,
        before: null,
        after: null,
        changes: [],
        version: 1,
        log: `/v1/events?after=${identity.store}-1-3&limit=1`
      })
      assert.isTrue(
        new Ajv2020({ strict: false, validateFormats: false }).validate(eventSchemaDocumentOf(tagEntry), data)
      )
      const [state] = yield* read(states)
      assert.deepStrictEqual(JSON.parse(state?.payload ?? ""), { id: "a", stub: true, log: data.log })
    }))

  it.effect("without transactions events are still published, and a warning names the consequence", () => {
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const { events, identity, read, sink } = yield* opened({ transactions: false })
      const places = yield* sink.publish(identity, entries(1, 20))
      assert.deepStrictEqual(places.flatMap(({ positions }) => positions).length, 20)
      const { published, ...checkpoint } = (yield* sink.open(identity))!
      assert.deepStrictEqual(checkpoint, { ...identity, ...checkpointOf(entries(1, 20))! })
      assert.deepStrictEqual(published?.places, places)
      assert.strictEqual((yield* read(events, "read_uncommitted")).length, 20)
      assert.strictEqual(lines.filter((line) => line.includes("without Kafka transactions")).length, 1)
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => lines.push(String(message)))])))
  })

  it.effect("a send that was abandoned is not delivered later", () =>
    Effect.gen(function*() {
      const { events, identity, read, sink } = yield* opened({ transactions: false })
      yield* sink.publish(identity, entries(1, 10))
      yield* Topics.remove(events)
      yield* Topics.removed(events)
      const hopeless = yield* Effect.forkChild(sink.publish(identity, entries(11, 20)))
      // kafkajs still tries after a second, @platformatic/kafka gives up
      const isPatient = currentDriver() === "kafkajs"
      const outcome = yield* Effect.timeoutOption(Fiber.await(hopeless), isPatient ? "1 second" : "1 minute")
      assert.strictEqual(Option.getOrNull(Option.map(outcome, Exit.isFailure)), isPatient ? null : true)
      yield* Fiber.interrupt(hopeless)
      yield* Topics.create(events, 6)
      yield* Effect.sleep("3 seconds")
      assert.deepStrictEqual(yield* read(events, "read_uncommitted"), [])
    }))

  it.effect("topics of known streams exist before the first event", () =>
    Effect.gen(function*() {
      const topic = `${randomUUID()}.{integration}.{model}`
      yield* opened({ topic, state: true, streams: [{ integration: "a/b:c", model: "hris.skill" }] })
      const names = yield* Topics.list
      const expected = topic.replace("{integration}.{model}", "a_2fb_3ac.hris.skill")
      assert.includeMembers(names, [expected, `${expected}.state`, controlTopicOf(topic), progressTopicOf(topic)])
    }))

  it.effect("a state topic that is not compacted is rejected with a hint", () =>
    Effect.gen(function*() {
      const topic = newTemplate()
      yield* Topics.create(stateTopicOf(topic, stream))
      const { reason } = yield* Effect.flip(opened({ topic, state: true, streams: [stream] }))
      assert.strictEqual(reason._tag, "Refused")
      assert.include(reason.hint, "cleanup.policy=compact")
    }))

  it.effect("an invalid template is rejected before any request to the broker", () =>
    Effect.gen(function*() {
      const { reason } = yield* Effect.flip(sinkOf({ topic: "rollcall.{tenant}" }))
      assert.strictEqual(reason._tag, "Refused")
      assert.include(reason.message, "{tenant}")
    }))

  it.effect("a missing broker is reported as unreachable soon (X10)", () =>
    Effect.gen(function*() {
      for (const ssl of [true, false]) {
        const failure = Effect.flip(opened({ brokers: ["127.0.0.1:1"], ssl }))
        const { message, reason } = yield* Effect.timeout(failure, "20 seconds")
        assert.strictEqual(reason._tag, "Unreachable")
        assert.include(message, "Check KAFKA_BROKERS")
      }
    }))
})
