/** Events that are large for their topic (K1). */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import kafkajs from "kafkajs"
import { topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { until } from "../../fault/kill/Patience.ts"
import * as Broker from "../kafka/Broker.ts"
import { describeWithDrivers } from "../kafka/Drivers.ts"
import * as Kcat from "../kafka/Kcat.ts"
import * as Topics from "../kafka/Topics.ts"
import { entries, entry } from "./Entries.ts"
import { newStore, newTemplate, opened, sinkOf, stream } from "./Publishing.ts"

const missing = Broker.missing ?? Kcat.missing

const text = (length: number, character = "x") => JSON.stringify({ id: "a", text: character.repeat(length) })

/** A sink whose topic of events accepts batches of this size. */
const limited = Effect.fnUntraced(function*(bytes: number) {
  const topic = newTemplate()
  yield* Topics.create(topicOf(topic, stream), 1, { "max.message.bytes": String(bytes) })
  return yield* opened({ topic })
})

describeWithDrivers("the limits of Kafka", missing, Broker.layer, (it) => {
  it.effect("many events that together exceed the batch limit are published in full (K1)", () =>
    Effect.gen(function*() {
      const { identity, read, sink } = yield* opened()
      yield* sink.publish(identity, entries(1, 60, { id: "a", after: text(50_000, "ü") }))
      const messages = yield* read()
      assert.strictEqual(messages.length, 60)
      assert.isTrue(messages.every((message) => message.headers.ce_stub === undefined))
    }))

  it.effect("a topic with a lower limit gets smaller batches, and stubs for smaller events (K1)", () =>
    Effect.gen(function*() {
      const { identity, read, sink } = yield* limited(20_000)
      const large = entry({ position: 101, after: text(30_000) })
      yield* sink.publish(identity, [...entries(1, 100), large, ...entries(102, 110)])
      assert.deepStrictEqual(
        (yield* read()).map(({ headers, offset }) => [headers.ce_id, offset, headers.ce_stub]),
        entries(1, 110).map((one, offset) => [one.eventId, offset, offset === 100 ? "true" : undefined])
      )
    }))

  it.effect("an event near the limit is published in full or as a stub, and is never rejected (K1)", () =>
    Effect.gen(function*() {
      const { identity, read, sink } = yield* limited(20_000)
      for (let position = 1; position <= 60; position++) {
        const after = JSON.stringify({ id: "é", text: "x".repeat(18_000 + position * 30) })
        yield* sink.publish(identity, [entry({ position, id: "é", version: position, kind: "created", after })])
      }
      const stubbed = (yield* read()).map((message) => message.headers.ce_stub === "true")
      assert.strictEqual(stubbed.length, 60)
      assert.isFalse(stubbed[0])
      assert.isTrue(stubbed[59])
    }))

  it.effect("a broker that rejects batches within its topic's limit gets smaller batches (K1)", () =>
    Effect.gen(function*() {
      const { events, identity, read, sink } = yield* opened()
      yield* sink.publish(identity, entries(1, 1))
      const type = kafkajs.ConfigResourceTypes.TOPIC
      const configEntries = [{ name: "max.message.bytes", value: "200000" }]
      yield* Topics.admin((admin) =>
        admin.alterConfigs({ validateOnly: false, resources: [{ type, name: events, configEntries }] })
      )
      // the broker applies a new limit after a moment
      yield* until("the limit to apply", Topics.setting(events, "max.message.bytes"), (value) => value === "200000")
      const batch = entries(2, 9, { id: "a", after: text(90_000) })
      const error = yield* Effect.flip(sink.publish(identity, batch))
      assert.strictEqual(error.reason._tag, "Unreachable")
      // A producer that failed once sends nothing more, not even a small batch.
      assert.include((yield* Effect.flip(sink.publish(identity, entries(2, 2)))).message, "an earlier failure")
      assert.strictEqual((yield* sink.open(identity))?.position, 1)
      yield* sink.publish(identity, batch)
      assert.strictEqual((yield* read()).length, 9)
    }))

  /** A sink of a user of the broker. */
  const sinkOfUser = Effect.fnUntraced(function*(topic: string, username: string) {
    const brokers = (yield* Broker.Broker).sasl ?? []
    const sasl = { mechanism: "plain", username, password: Redacted.make(`${username}-secret`) } as const
    return yield* sinkOf({ topic, brokers, streams: [stream], sasl })
  })

  it.effect.skipIf(!Broker.configured)(
    "a user without permissions is refused, and the hint lists the permissions that the user needs",
    () =>
      Effect.gen(function*() {
        const sink = yield* sinkOfUser(newTemplate(), "reader")
        const { reason } = yield* Effect.flip(sink.open(newStore()))
        assert.strictEqual(reason._tag, "Refused")
        assert.include(reason.hint, "transactional ids rollcall-relay-*")
      })
  )

  it.effect.skipIf(!Broker.configured)(
    "without permission to read a topic's limit, the limit is found by trying (K1)",
    () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const { brokers } = yield* Broker.Broker
        const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs
        const permissions = [
          [AclResourceTypes.TOPIC, AclOperationTypes.CREATE],
          [AclResourceTypes.TOPIC, AclOperationTypes.WRITE],
          [AclResourceTypes.TOPIC, AclOperationTypes.READ],
          [AclResourceTypes.GROUP, AclOperationTypes.READ],
          [AclResourceTypes.TRANSACTIONAL_ID, AclOperationTypes.WRITE]
        ] as const
        yield* Topics.admin((admin) =>
          admin.createAcls({
            acl: permissions.map(([resourceType, operation]) => ({
              resourceType,
              operation,
              resourceName: "*",
              resourcePatternType: ResourcePatternTypes.LITERAL,
              principal: "User:limited",
              host: "*",
              permissionType: AclPermissionTypes.ALLOW
            }))
          })
        )
        const name = topicOf(topic, stream)
        yield* Topics.create(name, 1, { "max.message.bytes": "200000" })
        const [sink, identity] = [yield* sinkOfUser(topic, "limited"), newStore()]
        const publish = sink.publish(identity, entries(1, 9, { id: "a", after: text(90_000) }))
        yield* Effect.andThen(sink.open(identity), publish).pipe(Effect.retry({ times: 5 }))
        assert.strictEqual((yield* Kcat.read(brokers, name)).length, 9)
      })
  )
})
