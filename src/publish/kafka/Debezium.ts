/**
 * The value of an event in the form that Debezium's connectors publish, for consumers that are written for it, and its schema.
 *
 * Gotchas
 * - Debezium has no place for `changes`, `transitions` and `cause`, so this form leaves them out.
 */
import { formatPosition, type Json, type LogEntry, type LogIdentity, sequenceOf } from "../../domain/ChangeEvent.ts"
import type { RecordEntry } from "../../domain/Model.ts"
import { parseTime } from "../../domain/Watermark.ts"
import { type JsonSchema, recordSchemaOf } from "../RecordSchema.ts"

/** Create, update, delete, or read (`r`): the record existed before Rollcall first read it. */
export const operationOf = ({ kind, origin }: LogEntry): "c" | "u" | "d" | "r" =>
  kind === "deleted" ? "d" : kind === "updated" ? "u" : origin === "backfill" ? "r" : "c"

/** The version of this form. */
const formVersion = "1"

const timeOf = ({ changedAt, detectedAt }: LogEntry): number => parseTime(changedAt) ?? detectedAt

/** `log`: the address of the whole event if the contents are too large for the topic; null if the text includes the contents. */
export const sourceOf = (identity: LogIdentity, entry: LogEntry, log: string | null) => ({
  version: formVersion,
  connector: "rollcall",
  name: identity.store,
  ts_ms: timeOf(entry),
  snapshot: String(entry.origin === "backfill"),
  db: entry.integration,
  table: entry.model,
  sequence: sequenceOf(identity, entry.position),
  record_id: entry.id,
  remote_id: entry.remoteId,
  generation: entry.generation,
  record_version: entry.version,
  event_id: entry.eventId,
  position: formatPosition(identity, entry.position, entry.chain),
  origin: entry.origin,
  reason: entry.reason,
  restored: entry.restored,
  ...(log === null ? {} : { stub: true, log })
})

/** `log`: as for `sourceOf`. */
export const envelopeTextOf = (identity: LogIdentity, entry: LogEntry, log: string | null): Json => {
  const source = sourceOf(identity, entry, log)
  const content = (text: Json | null) => log === null ? text ?? "null" : "null"
  return `{"before":${content(entry.before)},"after":${content(entry.after)},"source":${JSON.stringify(source)},` +
    `"op":"${operationOf(entry)}","ts_ms":${entry.detectedAt},"transaction":null}`
}

const text = { type: "string" }
const nullable = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: "null" }] })

export const sourceProperties = {
  version: { ...text, description: "Version of this form" },
  connector: { type: "string", const: "rollcall" },
  name: { ...text, description: "Id of the store that published" },
  ts_ms: { type: "integer", description: "When the API noticed the change; if unknown, when Rollcall detected it" },
  snapshot: { type: "string", enum: ["true", "false"] },
  db: { ...text, description: "`<tool>:<identifier>` of the connected system" },
  table: { ...text, description: "Model of the record" },
  sequence: { ...text, description: "Order in the event log: sorts by generation, then by position" },
  record_id: text,
  remote_id: nullable(text),
  generation: { type: "integer", description: "Later generations replace earlier ones" },
  record_version: { type: "integer", description: "1, 2, 3 … per record and generation" },
  event_id: { ...text, description: "The same id always has the same content" },
  position: { ...text, description: "Position in the event log; opaque" },
  origin: text,
  reason: nullable(text),
  restored: { type: "boolean" }
} satisfies Readonly<Record<string, JsonSchema>>

export const stubProperties = {
  stub: {
    type: "boolean",
    description: "The contents were too large for the topic: `log` is the path to read them"
  },
  log: text
} satisfies Readonly<Record<string, JsonSchema>>

/** The schema of the values. `record`: a reference to the schema of the model's records. */
export const envelopeSchemaOf = (entry: RecordEntry, record: string): JsonSchema => ({
  title: `${recordSchemaOf(entry).title}Envelope`,
  description: `A change of ${entry.model}, as Debezium's connectors publish changes`,
  type: "object",
  required: ["before", "after", "source", "op", "ts_ms"],
  properties: {
    before: nullable({ $ref: record }),
    after: nullable({ $ref: record }),
    source: {
      type: "object",
      required: Object.keys(sourceProperties),
      properties: { ...sourceProperties, ...stubProperties }
    },
    op: { type: "string", enum: ["c", "u", "d", "r"] },
    ts_ms: { type: "integer", description: "When Rollcall detected the change" },
    transaction: { type: "null" }
  }
})

/** The schema as a document, with the record's schema inside. */
export const envelopeSchemaDocumentOf = (entry: RecordEntry): JsonSchema => {
  const record = recordSchemaOf(entry)
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...envelopeSchemaOf(entry, `#/$defs/${record.title}`),
    $defs: { [record.title ?? entry.model]: record }
  }
}
