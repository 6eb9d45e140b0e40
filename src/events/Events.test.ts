/** Consumers decode the same events that the relay and the feed send. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { entries, entry } from "../../test/integration/publish/Entries.ts"
import { builtInModels } from "../domain/BuiltInModels.ts"
import { cloudEventTextOf, type LogEntry } from "../domain/ChangeEvent.ts"
import { defineList } from "../domain/DefinedList.ts"
import { type Format, type KafkaMessage, makeEncoder, progressMessage } from "../publish/kafka/KafkaMessage.ts"
import * as Events from "./Events.ts"

const identity = { store: "k3f9a2c1", generation: 1 }
const hire: LogEntry = {
  ...entry({ position: 7, id: "a1", model: "ats.application", version: 3, kind: "updated" }),
  before: JSON.stringify({ id: "a1", outcome: "PENDING", candidate: { first_name: "Ada" } }),
  after: JSON.stringify({ id: "a1", outcome: "HIRED", candidate: { first_name: "Ada" } }),
  changes: JSON.stringify([{ path: "/outcome", before: "PENDING", after: "HIRED" }]),
  transitions: JSON.stringify([{ name: "hired", from: "PENDING", to: "HIRED" }])
}

const sent = (entry: LogEntry, limit = 1_000_000, format: Format = "cloudevents"): ReadonlyArray<KafkaMessage> =>
  makeEncoder({
    identity,
    models: builtInModels,
    topic: "rollcall.{model}",
    state: true,
    format,
    limitOf: () => limit
  })(entry).messages

const received = ({ headers, value }: KafkaMessage) => ({
  headers: Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)])),
  value
})
const reasonOf = (decode: () => unknown): string => {
  try {
    decode()
    return "none"
  } catch (error) {
    return error instanceof Events.EventDecodeError ? error.reason : String(error)
  }
}

describe("rollcall/events", () => {
  it("an event has the trace in which it was stored, from Kafka and from the feed, and null without one", () => {
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    const traced = { ...hire, traceparent }
    assert.strictEqual(Events.fromKafka(received(sent(traced)[0]!)).traceparent, traceparent)
    assert.strictEqual(Events.fromJson(cloudEventTextOf(identity, traced)).traceparent, traceparent)
    assert.isNull(Events.fromKafka(received(sent(hire)[0]!)).traceparent)
    assert.isNull(Events.fromJson(cloudEventTextOf(identity, hire)).traceparent)
  })

  it("an event decodes without the content before it, which may have been forgotten, erased or pruned", () => {
    for (const kind of ["updated", "deleted"] as const) {
      const known = { ...hire, kind, before: null, after: kind === "deleted" ? null : hire.after }
      const event = Events.fromKafka(received(sent({ ...known, reason: kind === "deleted" ? "forgotten" : null })[0]!))
      assert.deepInclude(event, { kind, before: null, stub: false })
    }
  })

  it("a Kafka message and an entry of the feed decode to the same event", () => {
    const [message] = sent(hire)
    const event = Events.fromKafka(received(message!))
    assert.deepStrictEqual(event, Events.fromJson(cloudEventTextOf(identity, hire)))
    assert.deepStrictEqual(event, Events.fromJson(JSON.parse(cloudEventTextOf(identity, hire))))
    const before: unknown = JSON.parse(hire.before ?? "null")
    assert.deepStrictEqual<unknown>(event, {
      id: "event-7",
      position: `k3f9a2c1-1-7-${hire.chain}`,
      sequence: "0000000001-0000000000000007",
      traceparent: null,
      integration: "greenhouse:acme",
      model: "ats.application",
      recordId: "a1",
      remoteId: null,
      generation: 1,
      version: 3,
      kind: "updated",
      origin: "poll",
      before,
      after: { id: "a1", outcome: "HIRED", candidate: { first_name: "Ada" } },
      changes: [{ path: "/outcome", before: "PENDING", after: "HIRED" }],
      transitions: [{ name: "hired", from: "PENDING", to: "HIRED" }],
      reason: null,
      restored: false,
      changedAt: "2025-11-21T10:00:00.000Z",
      detectedAt: new Date("2025-11-21T10:00:01.000Z"),
      cause: null,
      stub: false
    })
  })

  it("an event is narrowed by model and kind", () => {
    const seen: Array<string | null | undefined> = []
    const see = (event: Events.Event) => {
      if (event.stub) {
        seen.push(event.log)
        const nothing: null = event.after
        return void nothing
      }
      if (event.model === "ats.application" && event.kind === "updated") {
        seen.push(event.before?.outcome, event.after.candidate?.first_name)
        const names: ReadonlyArray<Events.Open<"hired" | "declined" | "stage_changed">> = event.transitions.map((
          { name }
        ) => name)
        seen.push(...names)
        // @ts-expect-error a tag's property
        seen.push(event.after.name)
      }
      if (event.kind === "deleted") {
        const nothing: null = event.after
        seen.push(event.before?.id, nothing)
      }
    }
    see(Events.fromJson(cloudEventTextOf(identity, hire)))
    see(Events.fromJson(cloudEventTextOf(identity, entry({ position: 8, id: "t1", version: 2, kind: "deleted" }))))
    assert.deepStrictEqual(seen, ["PENDING", "Ada", "hired", undefined, "t1", null])
  })

  it("an event of a defined list decodes with its types if the list is passed, and is unknown otherwise", () => {
    const employees = defineList("hris.employee", {
      path: "/hris/employees",
      schema: Schema.Struct({ first_name: Schema.String })
    })
    const [message] = sent({
      ...entry({ position: 7, id: "e", version: 1, kind: "created" }),
      model: "hris.employee",
      after: JSON.stringify({ id: "e", first_name: "Ada" })
    })
    assert(message !== undefined)
    const event = Events.fromKafka(received(message), [employees])
    assert(!event.stub && event.model === "hris.employee" && event.kind === "created")
    const name: string | null | undefined = event.after.first_name
    assert.strictEqual(name, "Ada")
    const records = new Events.CurrentRecords()
    assert.isTrue(records.apply(event))
    assert.strictEqual(records.get(event.integration, employees, "e")?.first_name, "Ada")
    assert.deepStrictEqual([...records.list(employees)], [{ id: "e", first_name: "Ada" }])
    assert.strictEqual(reasonOf(() => Events.fromKafka(received(message))), "UnknownModel")
  })

  it("an event that was too large for Kafka has the path of the complete event (K1)", () => {
    const [message] = sent({ ...hire, after: JSON.stringify({ id: "a1", note: "x".repeat(10_000) }) }, 3_000)
    const event = Events.fromKafka(received(message!))
    assert.ok(event.stub)
    assert.deepStrictEqual([event.log, event.after, event.kind, event.recordId], [
      "/v1/events?after=k3f9a2c1-1-6&limit=1",
      null,
      "updated",
      "a1"
    ])
  })

  it("headers are decoded in the form of any Kafka client", () => {
    const [message] = sent(hire)
    const { value } = message!
    const { headers } = message!
    const whole = Events.fromKafka(received(message!))
    const bytes = Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)] as const)
    assert.deepStrictEqual(Events.fromKafka({ headers, value: String(value) }), whole)
    assert.deepStrictEqual(Events.fromKafka({ headers: new Map(bytes), value }), whole)
    const lists = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, [text]]))
    assert.deepStrictEqual(Events.fromKafka({ headers: lists, value }), whole)
  })

  it("a value with any id of a registered schema decodes, from bytes and from text", () => {
    const [message] = sent(hire)
    const whole = Events.fromKafka(received(message!))
    // as UTF-8: one character per byte, `{`, `{"`, characters of two, three and four bytes, and bytes that are not a character
    for (const id of [1, 0x7b, 0x7b22, 0xc3a9, 0x1c2a0, 0x61e28082, 0x00f09f98, 0x7fffffff]) {
      const head = Buffer.alloc(5)
      head.writeInt32BE(id, 1)
      const value = Buffer.concat([head, message!.value!])
      const { headers } = received(message!)
      assert.deepStrictEqual(Events.fromKafka({ headers, value }), whole, `${id} in bytes`)
      assert.deepStrictEqual(Events.fromKafka({ headers, value: value.toString() }), whole, `${id} in text`)
    }
  })

  it("an input that is not an event is rejected with a reason and without its content", () => {
    const [message, state] = sent(hire)
    const progress = progressMessage(identity, "rollcall.{model}", {
      integration: "greenhouse:acme",
      model: "ats.tag",
      generation: 1,
      completeTo: 0,
      position: 1,
      at: 0
    })
    const { headers, value } = received(message!)
    const json: Record<string, unknown> = JSON.parse(cloudEventTextOf(identity, hire))
    const data = json["data"] as Record<string, unknown>
    assert.deepStrictEqual(
      [
        () => Events.fromKafka(received(state!)),
        () => Events.fromKafka(received(progress)),
        () => Events.fromKafka({ value }),
        () => Events.fromKafka({ headers, value: "{" }),
        () => Events.fromKafka({ headers, value: null }),
        () => Events.fromJson("Ada"),
        () => Events.fromJson({}),
        () => Events.fromJson({ ...json, type: "rollcall.ats.thing.updated" }),
        () => Events.fromJson({ ...json, type: "rollcall.ats.application.merged_with" }),
        () => Events.fromJson({ ...json, type: "rollcall.ats.tag.updated" }),
        () => Events.fromJson({ ...json, data: { ...data, after: null } }),
        () => Events.fromJson({ ...json, data: { ...data, version: "Ada" } })
      ].map(reasonOf),
      [
        "Foreign",
        "Foreign",
        "Foreign",
        "NotJson",
        "Malformed",
        "NotJson",
        "Foreign",
        "UnknownModel",
        "UnknownKind",
        "Malformed",
        "Malformed",
        "Malformed"
      ]
    )
    try {
      Events.fromJson({ ...json, data: { ...data, version: "Ada" } })
    } catch (error) {
      assert.match(String(error), /\/version/)
      assert.notInclude(String(error), "Ada")
    }
  })

  it("an envelope of Debezium's form is rejected with the name of that form", () => {
    const [envelope] = sent(hire, 1_000_000, "debezium")
    assert.throws(() => Events.fromKafka(received(envelope!)), /debezium/)
  })

  it("properties that a newer version adds anywhere are accepted and left out", () => {
    const cause = { plugin: "tag", delivery: "4", depth: 1, paths: ["/outcome"] }
    const entry = { ...hire, cause: JSON.stringify(cause) }
    const json: Record<string, unknown> = JSON.parse(cloudEventTextOf(identity, entry))
    const data = json["data"] as Readonly<Record<"changes" | "transitions", ReadonlyArray<object>>>
    const more = { mood: "new", "": { nested: [1] }, constructor: null }
    const newer = {
      ...more,
      ...json,
      data: {
        ...more,
        ...data,
        changes: data.changes.map((change) => ({ ...more, ...change })),
        transitions: data.transitions.map((transition) => ({ ...more, ...transition })),
        cause: { ...more, ...cause }
      }
    }
    const known = Events.fromJson(json)
    assert.deepStrictEqual(Events.fromJson(newer), known)
    const [message] = sent(entry)
    const { headers } = received(message!)
    const kafka = { headers: { ...headers, ce_mood: "new", mood: "new" }, value: JSON.stringify(newer.data) }
    assert.deepStrictEqual(Events.fromKafka(kafka), known)
  })

  it("values of origin, reason and transitions that a newer version adds are kept, and the known ones are typed", () => {
    const json: Record<string, unknown> = JSON.parse(cloudEventTextOf(identity, hire))
    const data = json["data"] as Record<string, unknown>
    const added = { origin: "stream", reason: "merged", transitions: [{ name: "promoted", from: null, to: "LEAD" }] }
    const event = Events.fromJson({ ...json, origin: "stream", data: { ...data, ...added } })
    assert.deepInclude(event, added)
    // the type keeps the known values, so editors complete them
    const origin: Extract<Events.Event["origin"], "poll"> = "poll"
    const reason: Extract<Events.Event["reason"], "flagged"> = "flagged"
    const deleted = { ...hire, kind: "deleted", origin, reason, after: null } as const
    assert.deepInclude(Events.fromJson(cloudEventTextOf(identity, deleted)), { origin, reason })
    assert.throws(() => Events.fromJson({ ...json, data: { ...data, origin: 3 } }), /origin/)
  })

  const history = [
    ...entries(1, 30),
    ...entries(31, 40, { kind: "deleted", version: 4 }),
    ...entries(1, 5, { version: 1, kind: "created" }).map((one) => ({ ...one, generation: 2 }))
  ].map((one) => Events.fromJson(cloudEventTextOf(identity, one))).filter((event) => !event.stub)

  it.prop(
    "events that arrive twice or late fold to the same state",
    [Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: history.length - 1 })))],
    ([order]) => {
      const [inOrder, disordered] = [new Events.CurrentRecords(), new Events.CurrentRecords()]
      for (const event of history) inOrder.apply(event)
      for (const index of order) disordered.apply(history[index]!)
      for (const event of history.toReversed()) disordered.apply(event)
      for (let record = 0; record < 10; record++) {
        const get = (current: Events.CurrentRecords) => current.get("greenhouse:acme", "ats.tag", `r${record}`)
        assert.deepStrictEqual(get(disordered), get(inOrder))
      }
      assert.strictEqual([...inOrder.list("ats.tag")].length, 5)
      assert.isFalse(inOrder.apply(history[0]!))
    }
  )

  it("records of an earlier generation are dropped when a later generation is complete (X18)", () => {
    const current = new Events.CurrentRecords()
    for (const event of history.slice(0, 10)) current.apply(event)
    current.apply(history.at(-1)!)
    const stream = { integration: "greenhouse:acme", model: "ats.tag" } as const
    assert.deepStrictEqual(current.startGeneration({ ...stream, generation: 1 }), [])
    assert.strictEqual(current.startGeneration({ ...stream, generation: 2 }).length, 9)
    assert.deepStrictEqual([...current.list("ats.tag")].map(({ id }) => id), ["r4"])
    assert.deepStrictEqual([...current.list("ats.tag", "other:one")], [])
  })
})
