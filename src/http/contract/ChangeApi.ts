/**
 * The contract of the operating API for people who look for a change: search, the path of one change, and its content.
 *
 * Gotchas
 * - Only the last endpoint returns content, and each of its responses is an entry of the audit log.
 */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { NotFound } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { Instant, Kind, KnownModel, KnownTransition, Model, PositiveInt, words } from "./Schemas.ts"

const ChangeView = Schema.Struct({
  position: Schema.String,
  integration: Schema.String,
  model: Model,
  record: Schema.String,
  remote_id: Schema.NullOr(Schema.String),
  version: Schema.Int,
  generation: Schema.Int,
  kind: Kind,
  origin: Schema.Literals(["backfill", "poll", "sweep", "refresh"]),
  reason: Schema.NullOr(Schema.String).annotate({ description: "Why the record was published as deleted" }),
  transitions: Schema.Array(Schema.String).annotate({ description: "Names, without values" }),
  paths: Schema.Array(Schema.String).annotate({
    description: "Changed paths (JSON Pointer), without values; at most 200"
  }),
  changed_at: Instant,
  detected_at: Schema.String,
  cause: Schema.NullOr(Schema.Struct({ plugin: Schema.String, delivery: Schema.Int })).annotate({
    description: "The write of a plugin that caused the change; null if the cause is external"
  })
}).annotate({ identifier: "Change" })
export type ChangeView = typeof ChangeView.Type

const Neighbor = Schema.NullOr(Schema.String).annotate({
  description: "Position; null if there is none, or it is no longer kept"
})

const StepView = Schema.Struct({
  step: Schema.String,
  write: Schema.NullOr(Schema.String),
  done: Schema.Boolean,
  begun_at: Schema.String
})

export const ChangePath = Schema.Struct({
  change: ChangeView,
  event_id: Schema.String,
  caused_by: Neighbor.annotate({
    description: "The event to which the plugin reacted with the write that caused this change"
  }),
  kafka: Schema.NullOr(Schema.Struct({
    published: Schema.Boolean,
    waiting: Schema.Int.annotate({ description: "Events that must be published first" }),
    key: Schema.String,
    place: Schema.NullOr(Schema.Struct({
      topic: Schema.String,
      partition: Schema.Int,
      offset: Schema.Int,
      published_at: Schema.String
    })).annotate({
      description:
        "Where the event is; null if it is not published yet, or if its place is unknown: the broker did not return an offset, or it " +
        "was published longer ago than the retention of the log"
    })
  })).annotate({ description: "null without Kafka" }),
  deliveries: Schema.Array(Schema.Struct({
    plugin: Schema.String,
    handler: Schema.String,
    delivery: Schema.Int,
    state: Schema.Literals(["waiting", "due", "running", "dead", "settled"]),
    attempts: Schema.Int,
    due_at: Instant,
    failed_attempts: Schema.Array(Schema.Struct({
      number: Schema.Int,
      failed_at: Schema.String,
      reason: Schema.String,
      refusal: Schema.NullOr(Schema.String),
      message: Schema.String
    })),
    steps: Schema.Array(StepView),
    echoes: Schema.Array(ChangeView).annotate({ description: "Changes that the writes of this delivery caused" })
  })).annotate({
    description: "A delivery that was settled without a step or write is not stored, so it is not listed"
  })
}).annotate({ identifier: "ChangePath" })
export type ChangePath = typeof ChangePath.Type

export const ChangeContent = Schema.Struct({
  model: Model,
  before: Schema.Unknown,
  after: Schema.Unknown,
  changes: Schema.Array(Schema.Struct({ path: Schema.String, before: Schema.Unknown, after: Schema.Unknown })),
  transitions: Schema.Array(Schema.Struct({ name: Schema.String, from: Schema.Unknown, to: Schema.Unknown }))
}).annotate({ identifier: "ChangeContent" })
export type ChangeContent = typeof ChangeContent.Type

const PageLimit = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 200 }))
const at = { position: Schema.String.annotate({ description: "As `position` of an event" }) }

const SearchFields = {
  integration: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(KnownModel),
  id: Schema.optionalKey(Schema.String),
  remote_id: Schema.optionalKey(Schema.String.annotate({ description: "The record's id in the vendor's system" })),
  kind: Schema.optionalKey(Kind),
  transition: Schema.optionalKey(KnownTransition),
  hold: Schema.optionalKey(PositiveInt),
  before: Schema.optionalKey(Schema.String),
  limit: Schema.optionalKey(PageLimit)
}
export type ChangeSearch = Schema.Struct<typeof SearchFields>["Type"]

export const changes = HttpApiGroup.make("changes").add(
  HttpApiEndpoint.get("search", "/v1/changes", {
    query: SearchFields,
    success: Schema.Struct({
      items: Schema.Array(ChangeView),
      next: Schema.NullOr(Schema.String).annotate({
        description: "Pass it as `before` to search further back; null at the oldest event that is kept"
      })
    }),
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "searchChanges",
    "Search for changes, newest first",
    "Lists events from the newest to the oldest, without content. One request searches at most 20,000 positions of the log, so a page may " +
      "have fewer events than `limit`, or none, although `next` is not null. With `id` it finds all events of the record at once."
  )),
  HttpApiEndpoint.get("path", "/v1/changes/:position", {
    params: at,
    success: ChangePath,
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "getChange",
    "Get the path of a change",
    "The path of one change: the run that found it, the log, Kafka, its deliveries with their attempts and writes, and the changes that these " +
      "writes caused. Contains no content."
  )),
  HttpApiEndpoint.get("content", "/v1/changes/:position/content", {
    params: at,
    success: ChangeContent,
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "revealChange",
    "Reveal the content of a change",
    "The content of one change: the record before and after it. The response is sent after `events.reveal` is in the audit log, with the " +
      "position, the caller and the address."
  ))
)
