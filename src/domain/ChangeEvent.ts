/**
 * A published change: the row of the event log and its CloudEvents form.
 *
 * Invariants
 * 1. Per record and generation the kinds form `(created updated* deleted)*`, and each `before` is the previous `after`   (I3)
 * 2. Two events with the same id have the same content   (I4)
 *
 * Gotchas
 * - `before` and `after` are JSON *texts*. The stored text is inserted into the published text without being parsed again.
 */
import { hash } from "node:crypto"
import type { Model } from "./Model.ts"
import { schemaIdOf } from "./SchemaId.ts"

export type Kind = "created" | "updated" | "deleted"
/** How a change was found: by a poll, a sweep or a refresh. `backfill`: the record existed before the backfill, whichever run found it. */
export type Origin = "backfill" | "poll" | "sweep" | "refresh"
/**
 * Why a record was published as deleted. `flagged`: the API marks it as deleted. `absent`: the API no longer returns it. `erased`: its
 * source erased its content. `unseen`: the record was created and deleted between two runs; its `created` event has this reason too.
 * `forgotten`: an operator made Rollcall forget the record, or another record whose content this record repeats.
 */
export type DeleteReason = "flagged" | "absent" | "erased" | "unseen" | "forgotten"

/** JSON text. */
export type Json = string

/** An event as capture appends it. The store adds the position and the reference to the record's previous row. */
export interface NewEvent {
  /** Hash of generation, integration, model, id, version, kind and content. */
  readonly eventId: string
  readonly id: string
  readonly remoteId: string | null
  /** Generation of the stream. Events of a record are ordered by generation, then by version. */
  readonly generation: number
  /** Per record 1, 2, 3 … */
  readonly version: number
  readonly kind: Kind
  readonly origin: Origin
  /** Content after the change; null on `deleted`. */
  readonly after: Json | null
  /** `[{path, before, after}]` */
  readonly changes: Json
  /** `[{name, from, to}]` */
  readonly transitions: Json
  readonly reason: DeleteReason | null
  readonly restored: boolean
  /** `changed_at` as the API shows it. */
  readonly changedAt: string | null
  /** Our clock, milliseconds. */
  readonly detectedAt: number
  /** `{plugin, delivery, depth, paths}` or null. */
  readonly cause: Json | null
}

/** One row of the event log, joined with the content before the change. */
export interface LogEntry extends NewEvent {
  /** Gap-free, 1, 2, 3 … */
  readonly position: number
  /** Digest of this row and all rows before it: see `chainOf`. */
  readonly chain: string
  readonly integration: string
  readonly model: Model
  /** Content before the change; null on `created`. */
  readonly before: Json | null
  /** The span that appended the row, as W3C `traceparent`; null if its trace is not recorded. */
  readonly traceparent: string | null
}

/** Identifies the log that a position belongs to. */
export interface LogIdentity {
  /** Random text that was generated when the store was created. */
  readonly store: string
  /**
   * Generation of the store; `store adopt` increases it after a restore. Events have the generation of their stream, which may be
   * greater.
   */
  readonly generation: number
}

/** Chain value before the first row of a log. */
export const genesis = ""

/**
 * Chain value of a row: a digest (128 bits, base64url) of the previous row's chain and this row's event id. Two logs with
 * the same chain at a position contain the same events in the same order up to that position   (X14, X18).
 */
export const chainOf = (previous: string, eventId: string): string =>
  hash("sha256", `${previous} ${eventId}`, "base64url").slice(0, 22)

/** A place between two rows of the log. */
export interface LogPlace {
  /** Position of the row before this place; 0 at the start of the log. */
  readonly position: number
  /** Chain of that row. Null if the chain was not given: then this place may belong to another copy of the store with the same position. */
  readonly chain: string | null
}

/**
 * The text form of a position, which is opaque to readers. A position from which a reader resumes contains the chain; a position without
 * a chain only refers to a row.
 */
export const formatPosition = (identity: LogIdentity, position: number, chain?: string): string =>
  `${identity.store}-${identity.generation}-${position}${chain === undefined || chain === genesis ? "" : `-${chain}`}`

/**
 * The CloudEvents extension `sequence`. Its numbers have a fixed width, so the order of the texts is the order of the events in the log,
 * even after `store adopt`.
 */
export const sequenceOf = ({ generation }: LogIdentity, position: number): string =>
  `${String(generation).padStart(10, "0")}-${String(position).padStart(16, "0")}`

/** Parses a position: `"foreign"` if it belongs to another store or generation, `"malformed"` if the text is not a position. */
export const parsePosition = (identity: LogIdentity, text: string): LogPlace | "foreign" | "malformed" => {
  const match = /^([0-9a-z]+)-(\d{1,9})-(\d{1,15})(?:-([\w-]{22}))?$/.exec(text)
  if (match === null) return "malformed"
  return match[1] === identity.store && Number(match[2]) === identity.generation
    ? { position: Number(match[3]), chain: match[4] ?? null }
    : "foreign"
}

/** Event id: a hash of its inputs, so that different content gives a different id (I4). `after` is the stored text. */
export const eventIdOf = (
  { generation, integration, model }: {
    readonly generation: number
    readonly integration: string
    readonly model: Model
  },
  id: string,
  version: number,
  kind: Kind,
  after: Json | null
): string =>
  // no id contains a null character
  hash("sha256", [generation, integration, model, id, version, kind, after].join("\0"), "base64url")

const encodeSource = (integration: string): string =>
  `/integrations/${encodeURIComponent(integration).replaceAll("%3A", ":").replaceAll("%40", "@")}`

interface RecordId {
  readonly integration: string
  readonly model: Model
  readonly id: string
}

/** Kafka message key and CloudEvents `partitionkey`. */
export const partitionKey = (record: RecordId): string => `${record.integration}/${record.model}/${record.id}`

/** The type of messages with the content of a record. */
const stateTypeOf = ({ model }: Pick<RecordId, "model">): string => `rollcall.${model}.state`

/** The attribute of the extension for distributed tracing, if the trace is recorded. */
const tracingOf = ({ traceparent }: LogEntry) => traceparent === null ? {} : { traceparent }

/**
 * The attributes that CloudEvents requires, those by which messages are routed and filtered, and those that `data` does not have. A message
 * in Kafka has only these: each header costs processor time for each message.
 */
export const mainAttributesOf = (identity: LogIdentity, entry: LogEntry) => ({
  specversion: "1.0",
  id: entry.eventId,
  source: encodeSource(entry.integration),
  type: `rollcall.${entry.model}.${entry.kind}`,
  subject: entry.id,
  time: new Date(entry.detectedAt).toISOString(),
  datacontenttype: "application/json",
  position: formatPosition(identity, entry.position, entry.chain),
  sequence: sequenceOf(identity, entry.position),
  ...tracingOf(entry)
})

/** The attributes that name a record and its version. */
const recordAttributesOf = (record: RecordId & { readonly generation: number; readonly version: number }) => ({
  integration: record.integration,
  model: record.model,
  generation: record.generation,
  recordversion: record.version
})

/** All context attributes of CloudEvents, including extensions. */
export const attributesOf = (identity: LogIdentity, entry: LogEntry) => ({
  ...mainAttributesOf(identity, entry),
  ...recordAttributesOf(entry),
  dataschema: schemaIdOf(`${entry.model}.event`),
  origin: entry.origin,
  partitionkey: partitionKey(entry)
})

/** Attributes of a message with a record's content. They name the record, because its content does not. */
export const stateAttributesOf = (identity: LogIdentity, entry: LogEntry) => ({
  ...mainAttributesOf(identity, entry),
  ...recordAttributesOf(entry),
  type: stateTypeOf(entry)
})

/** Attributes of the removal notice for a deleted record that has no events in this generation of the log. */
export const removalAttributesOf = ({ generation }: LogIdentity, record: RecordId, now: number) => ({
  specversion: "1.0",
  id: eventIdOf({ ...record, generation }, record.id, 0, "deleted", null),
  source: encodeSource(record.integration),
  type: stateTypeOf(record),
  subject: record.id,
  time: new Date(now).toISOString(),
  ...recordAttributesOf({ ...record, generation, version: 0 })
})

/** The `data` member as JSON text. */
export const dataTextOf = (entry: LogEntry): Json => {
  const head = JSON.stringify({
    integration: entry.integration,
    model: entry.model,
    id: entry.id,
    remote_id: entry.remoteId,
    generation: entry.generation,
    version: entry.version,
    kind: entry.kind,
    origin: entry.origin
  })
  const tail = JSON.stringify({
    reason: entry.reason,
    restored: entry.restored,
    changed_at: entry.changedAt,
    detected_at: new Date(entry.detectedAt).toISOString()
  })
  return `${head.slice(0, -1)},"before":${entry.before ?? "null"},"after":${
    entry.after ?? "null"
  },"changes":${entry.changes}` +
    `,"transitions":${entry.transitions},${tail.slice(1, -1)},"cause":${entry.cause ?? "null"}}`
}

/** The event in CloudEvents JSON (structured) format, as text. */
export const cloudEventTextOf = (identity: LogIdentity, entry: LogEntry): Json =>
  `${JSON.stringify(attributesOf(identity, entry)).slice(0, -1)},"data":${dataTextOf(entry)}}`
