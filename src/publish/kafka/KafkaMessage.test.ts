import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { entry } from "../../../test/integration/publish/Entries.ts"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { attributesOf, type LogEntry } from "../../domain/ChangeEvent.ts"
import { type Format, makeEncoder } from "./KafkaMessage.ts"

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
  const attributes: Readonly<Record<string, unknown>> = attributesOf(identity, entry)
  const headers: Record<string, string> = {
    "content-type": "application/json",
    ...entry.traceparent !== null && { ce_traceparent: entry.traceparent, traceparent: entry.traceparent }
  }
  for (const name of ["specversion", "id", "source", "type", "subject", "time", "position", "sequence"]) {
    headers[`ce_${name}`] = String(attributes[name])
  }
  const ofState = {
    ...headers,
    ce_type: `rollcall.${entry.model}.state`,
    ce_integration: entry.integration,
    ce_model: entry.model,
    ce_generation: String(entry.generation),
    ce_recordversion: String(entry.version)
  }
  return { value, headers, ofState }
}
const identity = { store: "k3f9a2c1", generation: 1 }

describe("KafkaMessage", () => {
  it.prop(
    "an event is encoded without parsing its content as it is with parsing, byte by byte",
    [Schema.Array(Change)],
    ([changes]) => {
      const encode = makeEncoder({
        identity,
        models: builtInModels,
        topic: "{model}",
        state: true,
        limitOf: () => 1_000_000
      })
      for (const entry of changes.map(entryOf)) {
        const [event, state] = encode(entry).messages
        const { headers, ofState, value } = parsedForm(entry)
        assert.strictEqual(event!.value?.toString(), value)
        assert.deepStrictEqual<object>(event!.headers, headers)
        assert.strictEqual(state!.value?.toString() ?? null, entry.after)
        assert.deepStrictEqual<object>(state!.headers, ofState)
      }
    }
  )

  it("a recorded trace is named in both headers, in the stub of an event, in its state, and in the Debezium format", () => {
    const traced = entry({ position: 1, traceparent })
    const headersOf = (entry: LogEntry, format: Format, limit = 1_000_000) =>
      makeEncoder({ identity, models: builtInModels, topic: "{model}", state: true, format, limitOf: () => limit })(
        entry
      ).messages
        .map(({ headers }) => headers)
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
})
