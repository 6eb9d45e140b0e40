/**
 * PUBLIC: `rollcall/events`, for those who consume: from what stands in a Kafka message or in the HTTP feed to a typed
 * event, and from events to current state.
 *
 * ```ts
 * const event = Events.fromKafka(message)
 * if (!event.stub && event.model === "ats.application" && event.kind === "updated") console.log(event.after.outcome)
 * ```
 *
 * Gotchas
 * - A record is what the API shows: any field but `id` may be null or absent, an enumeration may have unknown values.
 * - Errors say what is wrong and where, never what stood there: it may be personal data.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { Kind } from "../domain/ChangeEvent.ts"
import { isModel, type Model, type TransitionName } from "../domain/Model.ts"
import type { Envelope, RecordOf } from "../plugin/Event.ts"
import { EventData } from "../publish/EventSchema.ts"

export type { DeleteReason, Kind, Origin } from "../domain/ChangeEvent.ts"
export type { Model, TransitionName } from "../domain/Model.ts"
export type { Cause, Change, RecordOf } from "../plugin/Event.ts"

/** A named step that the change means; the names of a later version may appear. */
export interface Transition<M extends Model> {
  readonly name: TransitionName<M>
  readonly from: string | null
  readonly to: string | null
}

interface EventFields<M extends Model> extends Omit<Envelope<M>, "kind"> {
  readonly transitions: ReadonlyArray<Transition<M>>
}

/** A whole event of a model. */
export type EventOf<M extends Model> =
  & EventFields<M>
  & { readonly stub: false }
  & (
    | { readonly kind: "created"; readonly before: null; readonly after: RecordOf<M> }
    | { readonly kind: "updated"; readonly before: RecordOf<M>; readonly after: RecordOf<M> }
    | { readonly kind: "deleted"; readonly before: RecordOf<M>; readonly after: null }
  )

/** The event was too large for Kafka. Neither contents nor changes are in it. */
export interface Stub extends EventFields<Model> {
  readonly stub: true
  readonly kind: Kind
  readonly before: null
  readonly after: null
  /** Path of the HTTP API that answers with the whole event. */
  readonly log: string
}

/** A whole event of any model: `model`, then `kind` tell the rest. */
export type WholeEvent = { readonly [M in Model]: EventOf<M> }[Model]
export type Event = WholeEvent | Stub

/** It is no event of ours, or one that this version does not know. */
export class EventDecodeError extends Schema.TaggedError<EventDecodeError>()("EventDecodeError", {
  /** `Foreign`: not published by Rollcall as an event. `UnknownModel`: by a later version. `Malformed`: it should be one. */
  reason: Schema.Literals(["NotJson", "Foreign", "UnknownModel", "Malformed"]),
  /** The CloudEvent's id, where it could be read. */
  id: Schema.NullOr(Schema.String),
  message: Schema.String
}) {}

// ---- decoding -----------------------------------------------------------------------------------------------------

const Attributes = Schema.Struct({
  specversion: Schema.Literal("1.0"),
  id: Schema.String,
  type: Schema.TemplateLiteral(["rollcall.", Schema.String]),
  position: Schema.String
})

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

const decoded = <A>(
  schema: Schema.Codec<A, unknown>,
  value: unknown,
  failed: (message: string) => EventDecodeError
): A => {
  const result = Schema.decodeUnknownResult(schema)(value)
  if (Result.isSuccess(result)) return result.success
  const [issue] = issuesOf(result.failure.issue).issues
  const path = (issue?.path ?? []).map((name) => `/${String(name)}`).join("")
  throw failed(`${path === "" ? "it" : path}: ${issue?.message ?? "does not fit"}`)
}

const decodeAttributes = Schema.decodeUnknownResult(Attributes)
const isKind = Schema.is(Schema.Literals(["created", "updated", "deleted"]))

const idIn = (attributes: unknown): string | null =>
  typeof attributes === "object" && attributes !== null && "id" in attributes && typeof attributes.id === "string"
    ? attributes.id
    : null

/** Which contents an event of its kind has. */
const isWhole = ({ after, before, kind }: EventData): boolean =>
  (before === null) === (kind === "created") && (after === null) === (kind === "deleted")

const eventOf = (attributes: unknown, data: unknown): Event => {
  const id = idIn(attributes)
  const failed = (reason: EventDecodeError["reason"]) => (message: string) =>
    new EventDecodeError({ reason, id, message })
  const known = decodeAttributes(attributes)
  const type = Result.isSuccess(known) ? /^rollcall\.(.+)\.([a-z]+)$/.exec(known.success.type) : null
  if (Result.isFailure(known) || type === null || !isKind(type[2])) {
    throw failed("Foreign")("its attributes are not those of an event of Rollcall")
  }
  const model = type[1] ?? ""
  if (!isModel(model)) throw failed("UnknownModel")(`"${model}" is no model that this version knows`)
  const fields = decoded(EventData, data, failed("Malformed"))
  if (fields.model !== model || fields.kind !== type[2]) throw failed("Malformed")("its type and its data disagree")
  if (fields.stub !== true && !isWhole(fields)) throw failed("Malformed")(`it is no whole "${fields.kind}"`)
  const { changed_at, detected_at, id: recordId, log, remote_id, stub, ...same } = fields
  const event: unknown = {
    ...same,
    id: known.success.id,
    position: known.success.position,
    recordId,
    remoteId: remote_id,
    changedAt: changed_at,
    detectedAt: new Date(detected_at),
    ...(stub === true ? { stub, log: log ?? "" } : { stub: false })
  }
  // the contents are the API's, as they are: what is promised of them is what the API promises
  return event as Event
}

const parsed = (text: string, id: string | null): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new EventDecodeError({ reason: "NotJson", id, message: "it is no JSON" })
  }
}

/** A CloudEvent in JSON format, as the HTTP feed has it: text, or parsed. Throws `EventDecodeError`. */
export const fromJson = (cloudEvent: string | object): Event => {
  const attributes = typeof cloudEvent === "string" ? parsed(cloudEvent, null) : cloudEvent
  return eventOf(
    attributes,
    typeof attributes === "object" && attributes !== null && "data" in attributes
      ? attributes.data
      : null
  )
}

type Bytes = string | Uint8Array
type Header = Bytes | null | undefined | ReadonlyArray<Bytes>

/** What any client of Kafka hands over; values are UTF-8. */
export interface Message {
  readonly headers?: Readonly<Record<string, Header>> | Iterable<readonly [Bytes, Header]> | undefined
  readonly value: Bytes | null
}

const utf8 = new TextDecoder()
const textOf = (bytes: Bytes): string => typeof bytes === "string" ? bytes : utf8.decode(bytes)

const attributesIn = ({ headers = {} }: Message): Readonly<Record<string, string>> => {
  const pairs: Iterable<readonly [Bytes, Header]> = Symbol.iterator in headers ? headers : Object.entries(headers)
  const attributes: Record<string, string> = {}
  for (const [name, value] of pairs) {
    const key = textOf(name)
    const first = Array.isArray(value) ? value[0] : value
    if (key.startsWith("ce_") && first != null) attributes[key.slice(3)] = textOf(first)
  }
  return attributes
}

/** A message of a topic of events (not of a `.state` topic, not of the progress topic). Throws `EventDecodeError`. */
export const fromKafka = (message: Message): Event => {
  const attributes = attributesIn(message)
  return eventOf(attributes, message.value === null ? null : parsed(textOf(message.value), idIn(attributes)))
}

// ---- current state ------------------------------------------------------------------------------------------------

/** Order of what is known of one record. */
export interface RecordVersion {
  readonly generation: number
  readonly version: number
}

/** Whether `event` says more than what is held of its record: false for what comes twice, or late. */
export const isNewer = (event: RecordVersion, held: RecordVersion | undefined): boolean =>
  held === undefined || event.generation > held.generation ||
  (event.generation === held.generation && event.version > held.version)

/** What is held of one record; `record` null: it is deleted. */
export interface RecordState<M extends Model> extends RecordVersion {
  readonly integration: string
  readonly model: M
  readonly id: string
  readonly record: RecordOf<M> | null
}

/** The records that events lead to, in memory; whoever keeps them elsewhere takes `isNewer`. */
export class CurrentRecords {
  /** Deleted ones too: what comes late must not bring them back. */
  readonly #held = new Map<string, RecordState<Model>>()

  /** Takes an event in; false: it is known already. A stub must be read whole first. */
  apply(event: WholeEvent): boolean {
    const { integration, generation, model, recordId: id, version } = event
    const key = JSON.stringify([integration, model, id])
    if (!isNewer(event, this.#held.get(key))) return false
    this.#held.set(key, { integration, model, id, generation, version, record: event.after })
    return true
  }

  /** The record as it is now; null if it is deleted, or was never seen. */
  get<M extends Model>(integration: string, model: M, id: string): RecordOf<M> | null {
    const held = this.#held.get(JSON.stringify([integration, model, id]))
    // what is held under a model's name is of that model
    return (held?.record ?? null) as RecordOf<M> | null
  }

  /** Live records of a model, of all integrations unless one is named. */
  *list<M extends Model>(model: M, integration?: string): Generator<RecordOf<M>> {
    for (const held of this.#held.values()) {
      if (held.model !== model || (integration ?? held.integration) !== held.integration) continue
      if (held.record !== null) yield held.record as RecordOf<M>
    }
  }

  /**
   * The progress topic (`rollcall.progress`) names this generation of a stream, and its topic was read up to then: what is
   * still of an earlier one is not there any more. Gives what was dropped.
   */
  startGeneration(
    stream: { readonly integration: string; readonly model: Model; readonly generation: number }
  ): ReadonlyArray<
    RecordState<Model>
  > {
    const gone = [...this.#held].filter(([, { integration, generation, model }]) =>
      integration === stream.integration && model === stream.model && generation < stream.generation
    )
    for (const [key] of gone) this.#held.delete(key)
    return gone.map(([, held]) => held)
  }
}
