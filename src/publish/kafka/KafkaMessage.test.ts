import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { entry } from "../../../test/integration/publish/Entries.ts"
import { attributesOf, type LogEntry } from "../../domain/ChangeEvent.ts"
import { modelNames } from "../../domain/Model.ts"
import * as Headers from "./HeaderTemplate.ts"
import {
  controlTopicOf,
  findTemplateError,
  type Format,
  type KafkaMessage,
  makeEncoder,
  progressTopicOf,
  splitIntoSends,
  stateTopicOf,
  topicOf
} from "./KafkaMessage.ts"

const model = "ats.tag"

const Message = Schema.Struct({
  topic: Schema.Literals(["a", "b"]),
  key: Schema.Literals(["k1", "k2", "k3"]),
  sizeBytes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2000 }))
})
const toMessage = ({ key, sizeBytes, topic }: typeof Message.Type): KafkaMessage => ({
  topic,
  key,
  value: Buffer.alloc(sizeBytes),
  headers: Headers.none
})

const Content = Schema.Struct({ id: Schema.String, text: Schema.String, numbers: Schema.Array(Schema.Int) })
const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
const Change = Schema.Struct({
  position: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1e9 })),
  id: Schema.String,
  remoteId: Schema.NullOr(Schema.String),
  version: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1e6 })),
  generation: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 })),
  integration: Schema.Literals(["greenhouse:acme", "a/b:é"]),
  model: Schema.Literals(["ats.tag", "ats.offer"]),
  kind: Schema.Literals(["created", "updated", "deleted"]),
  origin: Schema.Literals(["backfill", "poll"]),
  before: Schema.NullOr(Content),
  after: Schema.NullOr(Content),
  detectedAt: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4e12 })),
  cause: Schema.NullOr(Content),
  traceparent: Schema.NullOr(Schema.Literals([traceparent, traceparent.replace("b7", "c8")]))
})
const textOf = (content: object | null): string | null => content === null ? null : JSON.stringify(content)
const entryOf = (change: typeof Change.Type): LogEntry => ({
  ...entry({ position: 1 }),
  ...change,
  before: textOf(change.before),
  after: textOf(change.after),
  cause: textOf(change.cause)
})

/** The event's value and headers, made by parsing the stored content. */
const parsedForm = (entry: LogEntry) => {
  const parse = (text: string | null): unknown => text === null ? null : JSON.parse(text)
  const value = JSON.stringify({
    integration: entry.integration,
    model: entry.model,
    id: entry.id,
    remote_id: entry.remoteId,
    generation: entry.generation,
    version: entry.version,
    kind: entry.kind,
    origin: entry.origin,
    before: parse(entry.before),
    after: parse(entry.after),
    changes: parse(entry.changes),
    transitions: parse(entry.transitions),
    reason: entry.reason,
    restored: entry.restored,
    changed_at: entry.changedAt,
    detected_at: new Date(entry.detectedAt).toISOString(),
    cause: parse(entry.cause)
  })
  const attributes = Object.entries(attributesOf(identity, entry))
  const headers = attributes.map(([name, value]) => [
    name === "datacontenttype" ? "content-type" : `ce_${name}`,
    String(value)
  ])
  if (entry.traceparent !== null) headers.push(["traceparent", entry.traceparent])
  return { value, headers }
}
const identity = { store: "k3f9a2c1", generation: 1 }

describe("KafkaMessage", () => {
  it.prop(
    "an event is encoded without parsing its content as it is with parsing, byte by byte",
    [Schema.Array(Change)],
    ([changes]) => {
      const encode = makeEncoder({ identity, topic: "{model}", state: true, limitOf: () => 1_000_000 })
      for (const entry of changes.map(entryOf)) {
        const [event, state] = encode(entry).messages
        const { headers, value } = parsedForm(entry)
        assert.strictEqual(event!.value?.toString(), value)
        assert.deepStrictEqual(Object.entries(Headers.toRecord(event!.headers)), headers)
        assert.strictEqual(state!.value?.toString() ?? null, entry.after)
        const ofState = headers.filter(([name]) => name !== "ce_dataschema").map(([name, value]) =>
          name === "ce_type" ? [name, `rollcall.${entry.model}.state`] : [name, value]
        )
        assert.deepStrictEqual(Object.entries(Headers.toRecord(state!.headers)), ofState)
      }
    }
  )

  it("a recorded trace is named in both headers, in the stub of an event, in its state, and in the Debezium format", () => {
    const traced = entry({ position: 1, traceparent })
    const headersOf = (entry: LogEntry, format: Format, limit = 1_000_000) =>
      makeEncoder({ identity, topic: "{model}", state: true, format, limitOf: () => limit })(entry).messages
        .map(({ headers }) => Headers.toRecord(headers))
    for (const headers of [...headersOf(traced, "cloudevents"), ...headersOf(traced, "cloudevents", 200)]) {
      assert.deepInclude(headers, { ce_traceparent: traceparent, traceparent })
    }
    for (const limit of [1_000_000, 200]) {
      const [event] = headersOf(traced, "debezium", limit)
      assert.deepStrictEqual(event, { "content-type": "application/json", traceparent })
    }
    for (const format of ["cloudevents", "debezium"] as const) {
      for (const headers of headersOf(entry({ position: 1 }), format)) {
        assert.notProperty(headers, "traceparent")
        assert.notProperty(headers, "ce_traceparent")
      }
    }
  })

  it("a topic's name is the template with model and integration filled in", () => {
    const stream = { integration: "greenhouse:acme", model } as const
    assert.strictEqual(topicOf("rollcall.{model}", stream), "rollcall.ats.tag")
    assert.strictEqual(topicOf("{integration}.{model}", stream), "greenhouse_3aacme.ats.tag")
    assert.strictEqual(stateTopicOf("{model}", stream), "ats.tag.state")
    assert.strictEqual(topicOf("{integration}", { integration: "ä_$&", model }), "_c3_a4_5f_24_26")
  })

  it.prop(
    "no two integrations share a topic, and every topic has a name that Kafka accepts",
    [Schema.NonEmptyString, Schema.NonEmptyString],
    ([one, other]) => {
      const [first, second] = [one, other].map((integration) => topicOf("{integration}", { integration, model }))
      assert.match(first ?? "", /^[A-Za-z0-9._-]+$/)
      // Lone surrogates have no UTF-8 encoding of their own.
      if (one.isWellFormed() && other.isWellFormed()) assert.strictEqual(first === second, one === other)
    }
  )

  it("the names of the progress and relay topics come from the template, and differ if templates differ", () => {
    assert.strictEqual(progressTopicOf("rollcall.{model}"), "rollcall.progress")
    assert.strictEqual(controlTopicOf("rollcall.{model}"), "rollcall.relay")
    const templates = ["hr", "hr.{model}", "hr.{integration}", "hr.{integration}.{model}", "{model}", "{integration}"]
    const names = templates.flatMap((template) => [progressTopicOf(template), controlTopicOf(template)])
    assert.deepStrictEqual(names, [
      ..."hr._progress hr._relay hr.progress hr.relay hr._._progress hr._._relay".split(" "),
      ..."hr._.progress hr._.relay progress relay _._progress _._relay".split(" ")
    ])
  })

  it.prop(
    "no stream's topic has the name of the progress topic or the relay topic, for any template and integration",
    [
      Schema.NonEmptyArray(
        Schema.Literals(["{model}", "{integration}", ".", "_", "5f", "progress", "relay", "state", "._progress"])
      ),
      Schema.NonEmptyArray(Schema.Literals([".", "_", "5f", "progress", "relay", "ats.tag", "é", "_5f"])),
      Schema.Literals(modelNames)
    ],
    ([parts, names, model]) => {
      const [template, integration] = [parts.join(""), names.join("")]
      const own = [progressTopicOf(template), controlTopicOf(template)]
      const stream = { integration, model }
      for (const topic of [topicOf(template, stream), stateTopicOf(template, stream)]) assert.notInclude(own, topic)
    }
  )

  it("a template with an unknown placeholder or a character that Kafka does not accept is invalid", () => {
    assert.isNull(findTemplateError("rollcall.{integration}.{model}"))
    assert.isNull(findTemplateError("everything"))
    assert.include(findTemplateError("rollcall.{modle}") ?? "", "{modle}")
    for (const wrong of ["", "a b", "rollcall/{model}", "{model", "ä"]) {
      assert.isNotNull(findTemplateError(wrong), wrong)
    }
  })

  it.prop(
    "sends keep the order and all messages, and more than one message of a topic never exceeds its limit (K1)",
    [Schema.Array(Message), Schema.Int.check(Schema.isBetween({ minimum: 300, maximum: 5000 }))],
    ([shapes, limit]) => {
      const messages = shapes.map(toMessage)
      const sends = splitIntoSends(messages, () => limit)
      assert.deepStrictEqual(sends.flat(), messages)
      for (const send of sends) {
        for (const share of Map.groupBy(send, (message) => message.topic).values()) {
          const bytes = share.reduce((sum, message) => sum + message.key.length + (message.value?.length ?? 0), 0)
          if (share.length > 1) assert.isAtMost(bytes, limit)
        }
      }
    }
  )
})
