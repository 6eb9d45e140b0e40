/**
 * PUBLIC: `rollcall/events`, for consumers: decodes Kafka messages and entries of the HTTP feed into typed events, and folds
 * events into current records.
 *
 * ```ts
 * const event = Events.fromKafka(message)
 * if (!event.stub && event.model === "ats.application" && event.kind === "updated") console.log(event.after.outcome)
 * ```
 *
 * Gotchas
 * - A record is typed as the API returns it: any field except `id` may be null or absent, and an enumeration may have unknown values.
 * - A newer server may add properties. They are left out here.
 * - A newer server may add values of `origin`, of `reason` and of the names of transitions. The type of these is `Open`.
 * - No `kind` is added without notice: an event of an unknown kind fails with `UnknownKind`.
 * - An error describes the problem and its location, but never contains the value, because it may be personal data.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { type BuiltInModel as Model, modelNames, type TransitionName } from "../domain/BuiltInModels.ts"
import type { DeleteReason, Kind, Origin } from "../domain/ChangeEvent.ts"
import type { AnyList, DefinedList, ListRecord, RecordFields } from "../domain/DefinedList.ts"
import type { Model as AnyModel } from "../domain/Model.ts"
import type { Envelope, RecordIn, RecordOf } from "../plugin/Event.ts"
import { EventData, kinds } from "../publish/EventSchema.ts"

export type { BuiltInModel as Model, TransitionName } from "../domain/BuiltInModels.ts"
export type { DeleteReason, Kind, Origin } from "../domain/ChangeEvent.ts"
export type { Cause, Change, RecordOf } from "../plugin/Event.ts"

/**
 * One of the known values, which editors complete, or another text, because a newer server may send values that this version does not know.
 * Handle an unknown value like the general case: an unknown `reason` is still a delete.
 */
export type Open<Known extends string> = Known | (string & {})

/** A named transition, such as `hired`. */
export interface Transition<M extends Model> extends TransitionNamed<TransitionName<M>> {}

interface TransitionNamed<N extends string> {
  readonly name: Open<N>
  readonly from: string | null
  readonly to: string | null
}

interface EventFields<M extends AnyModel, N extends string> extends Omit<Envelope<M>, "kind" | "origin" | "reason"> {
  readonly origin: Open<Origin>
  /** Why the record was published as deleted. Null for other events, except for the `created` of a record that was deleted `unseen`. */
  readonly reason: Open<DeleteReason> | null
  /** Orders the events of one log: the later of two events has the greater text. */
  readonly sequence: string
  /** The span in which Rollcall stored the event, as W3C `traceparent`; null if no trace was recorded. */
  readonly traceparent: string | null
  readonly transitions: ReadonlyArray<TransitionNamed<N>>
}

/**
 * A complete event of a model. `before` of an `updated` or `deleted` event is null if that content is no longer kept, because it is past
 * retention, erased by its source, or forgotten.
 */
export type EventOf<M extends Model> = Whole<M, TransitionName<M>, RecordOf<M>>

type Whole<M extends AnyModel, N extends string, R> =
  & EventFields<M, N>
  & { readonly stub: false }
  & (
    | { readonly kind: "created"; readonly before: null; readonly after: R }
    | { readonly kind: "updated"; readonly before: R | null; readonly after: R }
    | { readonly kind: "deleted"; readonly before: R | null; readonly after: null }
  )

/** Replaces an event that was too large for Kafka. It has neither the record's contents nor the changes. */
export interface Stub<M extends AnyModel = Model, N extends string = TransitionName<Model>> extends EventFields<M, N> {
  readonly stub: true
  readonly kind: Kind
  readonly before: null
  readonly after: null
  /**
   * Path in the HTTP API that returns the complete event. 410: the log no longer has it; `GET /v1/records?integration=&model=&id=` has the
   * record's current content.
   */
  readonly log: string
}

/** A complete event of any model. Narrow it by `model`, then by `kind`. */
export type WholeEvent = { readonly [M in Model]: EventOf<M> }[Model]
export type Event = WholeEvent | Stub

/** A complete event of a list that `defineList` defines. */
export type WholeListEvent<L> = L extends DefinedList<infer M, infer F, infer T> ? Whole<M, T, ListRecord<F>> : never
/** An event of a list that `defineList` defines. */
export type ListEvent<L> =
  | WholeListEvent<L>
  | (L extends DefinedList<infer M, RecordFields, infer T> ? Stub<M, T> : never)

/** The input is not an event of Rollcall, or is one that this version cannot decode. */
export class EventDecodeError extends Schema.TaggedError<EventDecodeError>()("EventDecodeError", {
  /**
   * `NotJson`: the text is not JSON. `Foreign`: not an event of Rollcall. `UnknownModel`, `UnknownKind`: an event of a newer version.
   * `Malformed`: an event of Rollcall whose contents are invalid.
   */
  reason: Schema.Literals(["NotJson", "Foreign", "UnknownModel", "UnknownKind", "Malformed"]),
  /** Id of the CloudEvent; null if it could not be read. */
  id: Schema.NullOr(Schema.String),
  message: Schema.String
}) {}

// ---- decoding -----------------------------------------------------------------------------------------------------

const Attributes = Schema.Struct({
  specversion: Schema.Literal("1.0"),
  id: Schema.String,
  type: Schema.TemplateLiteral(["rollcall.", Schema.String]),
  position: Schema.String,
  sequence: Schema.String,
  traceparent: Schema.optionalKey(Schema.String)
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
  throw failed(`${path === "" ? "the data" : path}: ${issue?.message ?? "does not match the schema"}`)
}

const decodeAttributes = Schema.decodeUnknownResult(Attributes)
const isModel = (name: string): name is Model => (modelNames as ReadonlyArray<string>).includes(name)
const isKind = (name: string): name is Kind => (kinds as ReadonlyArray<string>).includes(name)

const idIn = (attributes: unknown): string | null =>
  typeof attributes === "object" && attributes !== null && "id" in attributes && typeof attributes.id === "string"
    ? attributes.id
    : null

/** Whether `before` and `after` are as the event's kind requires. The content before a change may no longer be kept. */
const isWhole = ({ after, before, kind }: EventData): boolean =>
  (before === null || kind !== "created") && (after === null) === (kind === "deleted")

const eventOf = (attributes: unknown, data: unknown, lists: ReadonlyArray<AnyList>): Event => {
  const id = idIn(attributes)
  const failed = (reason: EventDecodeError["reason"]) => (message: string) =>
    new EventDecodeError({ reason, id, message })
  const known = decodeAttributes(attributes)
  const type = Result.isSuccess(known) ? /^rollcall\.(.+)\.([a-z_]+)$/.exec(known.success.type) : null
  const [, model = "", kind = ""] = type ?? []
  if (Result.isFailure(known) || type === null || kind === "state") {
    throw failed("Foreign")("the attributes are not those of a Rollcall event")
  }
  if (!isModel(model) && lists.every((list) => list.model !== model)) {
    throw failed("UnknownModel")(
      `this version does not know the model "${model}": update rollcall/events, or pass the list that defines it`
    )
  }
  if (!isKind(kind)) {
    throw failed("UnknownKind")(
      `this version does not know the kind "${kind}": update rollcall/events, then read the event again`
    )
  }
  const fields = decoded(EventData, data, failed("Malformed"))
  if (fields.model !== model || fields.kind !== kind) {
    throw failed("Malformed")("the type attribute does not match the data")
  }
  if (fields.stub !== true && !isWhole(fields)) {
    throw failed("Malformed")(`"before" and "after" do not match the kind "${fields.kind}"`)
  }
  const { changed_at, detected_at, id: recordId, log, remote_id, stub, ...same } = fields
  const event: unknown = {
    ...same,
    id: known.success.id,
    position: known.success.position,
    sequence: known.success.sequence,
    traceparent: known.success.traceparent ?? null,
    recordId,
    remoteId: remote_id,
    changedAt: changed_at,
    detectedAt: new Date(detected_at),
    ...(stub === true ? { stub, log: log ?? "" } : { stub: false })
  }
  // the contents are not validated: they are exactly what the API returned, and have the type that the API promises
  return event as Event
}

const parsed = (text: string, id: string | null): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new EventDecodeError({ reason: "NotJson", id, message: "the text is not JSON" })
  }
}

/** Decodes a CloudEvent in JSON format, as in the HTTP feed: the text, or the parsed object. Throws `EventDecodeError`. */
export function fromJson(cloudEvent: string | object): Event
/** Decodes the events of these lists too. */
export function fromJson<L extends AnyList>(
  cloudEvent: string | object,
  lists: ReadonlyArray<L>
): Event | ListEvent<L>
export function fromJson(cloudEvent: string | object, lists: ReadonlyArray<AnyList> = []): object {
  const attributes = typeof cloudEvent === "string" ? parsed(cloudEvent, null) : cloudEvent
  return eventOf(
    attributes,
    typeof attributes === "object" && attributes !== null && "data" in attributes
      ? attributes.data
      : null,
    lists
  )
}

type Bytes = string | Uint8Array
type Header = Bytes | null | undefined | ReadonlyArray<Bytes>

/** A message in the form in which Kafka clients return it. Bytes are decoded as UTF-8. */
export interface Message {
  readonly headers?: Readonly<Record<string, Header>> | Iterable<readonly [Bytes, Header]> | undefined
  readonly value: Bytes | null
}

const utf8 = new TextDecoder()
/** With a schema registry, a zero byte and the schema's id (four bytes) come before the JSON. */
const schemaIdBytes = 5
/** In a text, several bytes of the id may be one character, so the JSON starts where `{"` is last found among the first characters. */
const valueOf = (bytes: Bytes): Bytes =>
  typeof bytes === "string"
    ? bytes.startsWith("\0") ? bytes.slice(Math.max(0, bytes.lastIndexOf('{"', schemaIdBytes))) : bytes
    : bytes[0] === 0
    ? bytes.subarray(schemaIdBytes)
    : bytes
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

/** Decodes a message of an event topic (not of a `.state` topic, and not of the progress topic). Throws `EventDecodeError`. */
export function fromKafka(message: Message): Event
/** Decodes the events of these lists too. */
export function fromKafka<L extends AnyList>(message: Message, lists: ReadonlyArray<L>): Event | ListEvent<L>
export function fromKafka(message: Message, lists: ReadonlyArray<AnyList> = []): object {
  const attributes = attributesIn(message)
  if (Object.keys(attributes).length === 0) {
    throw new EventDecodeError({
      reason: "Foreign",
      id: null,
      message:
        "the message has no CloudEvents headers: it is from another program, or Rollcall publishes in the format debezium"
    })
  }
  return eventOf(
    attributes,
    message.value === null ? null : parsed(textOf(valueOf(message.value)), idIn(attributes)),
    lists
  )
}

// ---- current state ------------------------------------------------------------------------------------------------

/** The version of a record, ordered by generation, then by version. */
export interface RecordVersion {
  readonly generation: number
  readonly version: number
}

/** Whether `event` is newer than the known version of its record; false for an event that arrives twice or late. */
export const isNewer = (event: RecordVersion, known: RecordVersion | undefined): boolean =>
  known === undefined || event.generation > known.generation ||
  (event.generation === known.generation && event.version > known.version)

/** The current state of one record; `record` is null if it is deleted. */
export interface RecordState<M extends AnyModel> extends RecordVersion {
  readonly integration: string
  readonly model: M
  readonly id: string
  readonly record: RecordOf<M> | null
}

/** A complete event of any model, built-in or defined. */
type AnyWholeEvent = WholeEvent | Whole<AnyModel, string, { readonly id: string }>

/** Folds events into the current records, in memory. A consumer that stores records elsewhere uses `isNewer`. */
export class CurrentRecords {
  /** Includes deleted records, so that a late event does not bring them back. */
  readonly #records = new Map<string, RecordState<AnyModel>>()

  /** Applies an event; returns false if it is not newer than the known state. For a stub, fetch the complete event first. */
  apply(event: AnyWholeEvent): boolean {
    const { integration, generation, model, recordId: id, version } = event
    const key = JSON.stringify([integration, model, id])
    if (!isNewer(event, this.#records.get(key))) return false
    this.#records.set(key, { integration, model, id, generation, version, record: event.after })
    return true
  }

  /** The current record; null if it is deleted or was never seen. */
  get<L extends AnyList>(integration: string, list: L, id: string): RecordIn<L> | null
  get<M extends Model>(integration: string, model: M, id: string): RecordOf<M> | null
  get(integration: string, of: AnyModel | AnyList, id: string): object | null {
    const model = typeof of === "string" ? of : of.model
    const state = this.#records.get(JSON.stringify([integration, model, id]))
    // the key contains the model, so the record is one of that model
    return state?.record ?? null
  }

  /** Live records of a model in one integration, or in all integrations if `integration` is not given. */
  list<L extends AnyList>(list: L, integration?: string): Generator<RecordIn<L>>
  list<M extends Model>(model: M, integration?: string): Generator<RecordOf<M>>
  *list(of: AnyModel | AnyList, integration?: string): Generator<object> {
    const model = typeof of === "string" ? of : of.model
    for (const state of this.#records.values()) {
      if (state.model !== model || (integration ?? state.integration) !== state.integration) continue
      if (state.record !== null) yield state.record
    }
  }

  /**
   * Drops the records of a stream that have an earlier generation, because they no longer exist. Returns the dropped records.
   * Call it when the progress topic (`rollcall.progress`) names this generation, after the stream's topic has been read up to that message.
   */
  startGeneration(
    stream: { readonly integration: string; readonly model: AnyModel; readonly generation: number }
  ): ReadonlyArray<
    RecordState<AnyModel>
  > {
    const gone = [...this.#records].filter(([, { integration, generation, model }]) =>
      integration === stream.integration && model === stream.model && generation < stream.generation
    )
    for (const [key] of gone) this.#records.delete(key)
    return gone.map(([, state]) => state)
  }
}
