/**
 * The contract for consumers: the event log and the current records.
 *
 * Gotchas
 * - The schemas of events and records are only documentation: the server concatenates stored JSON text and does not encode
 *   it with them.
 * - `OpenApiDocument.ts` describes the parameters, and the content of each model.
 */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { NotFound, PositionGone, PositionMalformed } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { Kind, KnownModel, KnownTransition, Limit, Model, oneOrMore, Time, words } from "./Schemas.ts"

/** A CloudEvent 1.0 in JSON format, as `GET /v1/events` lists it. */
const Event = Schema.Struct({
  specversion: Schema.Literal("1.0"),
  id: Schema.String.annotate({ description: "The same id always has the same content" }),
  source: Schema.String.annotate({ description: "`/integrations/<integration>`" }),
  type: Schema.String.annotate({ description: "`rollcall.<model>.<kind>`" }),
  subject: Schema.String.annotate({ description: "Record id" }),
  time: Schema.String.annotate({ description: "When Rollcall detected the change, RFC 3339" }),
  datacontenttype: Schema.Literal("application/json"),
  dataschema: Schema.String.annotate({ description: "`urn:rollcall:schema:<name>:<version>`, see `GET /schemas`" }),
  integration: Schema.String,
  model: Model,
  generation: Schema.Int,
  recordversion: Schema.Int.annotate({ description: "1, 2, 3 … per record and generation" }),
  origin: Schema.String.annotate({ description: "`backfill`, `poll`, `sweep` or `refresh`" }),
  position: Schema.String.annotate({ description: "Pass it as `after` to resume after this event; opaque" }),
  sequence: Schema.String.annotate({ description: "Sorts as text in the order of the log; its width is fixed" }),
  partitionkey: Schema.String.annotate({ description: "The key of the message on Kafka" }),
  traceparent: Schema.optionalKey(Schema.String.annotate({
    description: "W3C trace context of the span that stored the event; only if that trace was recorded"
  })),
  data: Schema.Unknown
}).annotate({ identifier: "Event" })

/** The current published state of one record. */
const CurrentRecord = Schema.Struct({
  integration: Schema.String,
  model: Model,
  id: Schema.String,
  generation: Schema.Int,
  version: Schema.Int,
  after: Schema.Unknown
}).annotate({ identifier: "CurrentRecord" })

const positionErrors = [PositionMalformed, PositionGone] as const

const events = HttpApiEndpoint.get("events", "/v1/events", {
  query: {
    after: Schema.optionalKey(Schema.String),
    since: Schema.optionalKey(Time),
    limit: Schema.optionalKey(Limit),
    integration: Schema.optionalKey(oneOrMore(Schema.NonEmptyString)),
    model: Schema.optionalKey(oneOrMore(KnownModel)),
    kind: Schema.optionalKey(oneOrMore(Kind)),
    transition: Schema.optionalKey(oneOrMore(KnownTransition))
  },
  headers: { accept: Schema.optionalKey(Schema.String), "last-event-id": Schema.optionalKey(Schema.String) },
  success: [
    Schema.Struct({
      events: Schema.Array(Event),
      next: Schema.String.annotate({ description: "Position to pass as `after` of the next request" }),
      hint: Schema.optionalKey(
        Schema.String.annotate({ description: "For people: why no event may ever match this filter" })
      )
    }).annotate({ identifier: "EventPage" }),
    Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))
  ],
  error: positionErrors
}).annotate(ShowsRecords, true).annotateMerge(words(
  "listEvents",
  "List or stream events",
  "Lists events in the order of the log. `next` is always present: pass it as `after` of the next request, with the same " +
    "filter. A page has fewer than `limit` events if it would otherwise exceed 8 MiB, and a page of a filter by kind or " +
    "transition ends after 10,000 events of the log, so only `next` shows how far it read. With `Accept: text/event-stream` " +
    "the same events are streamed: `id` is the position, `event` is the kind, `Last-Event-ID` resumes after it, and " +
    "comments keep the connection alive."
))

const records = HttpApiEndpoint.get("records", "/v1/records", {
  query: {
    integration: Schema.String,
    model: KnownModel,
    id: Schema.optionalKey(Schema.NonEmptyString),
    after: Schema.optionalKey(Schema.String),
    limit: Schema.optionalKey(Limit)
  },
  success: Schema.Struct({
    records: Schema.Array(CurrentRecord),
    position: Schema.String.annotate({ description: "Follow `GET /v1/events` from here after the last page" }),
    next: Schema.NullOr(Schema.String).annotate({ description: "Null on the last page" })
  }).annotate({ identifier: "RecordPage" }),
  error: [...positionErrors, NotFound]
}).annotate(ShowsRecords, true).annotateMerge(words(
  "listRecords",
  "List the current records of a stream",
  "Lists the current published state of a stream. A new consumer reads all pages (pass `next` as `after` of the " +
    "next request; it is null on the last page) and then follows `GET /v1/events?after=<position>`. `position` is " +
    "the same on every page. A page has fewer than `limit` records if it would otherwise exceed 8 MiB. With `id` the list has " +
    "only this record, and is empty if the record is deleted or unknown."
))

export const feed = HttpApiGroup.make("feed").add(events, records)
