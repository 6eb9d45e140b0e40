/**
 * Schemas of the published data: an event's `data` and a stream's progress.
 *
 * Invariants
 * 1. The schemas only grow: properties may be added, so readers must accept unknown properties
 * 2. Names that a consumer can handle without knowing them (`origin`, `reason`) are open: later versions may add some. `kind` is closed, because
 *    a consumer must know what to do with an event
 *
 * Gotchas
 * - `before` and `after` are the API's records unchanged, even if they do not match the API's own schema.
 */
import * as Schema from "effect/Schema"
import { openEnum } from "../api/Fields.ts"
import type { DeleteReason, Kind, Origin } from "../domain/ChangeEvent.ts"

export const kinds = ["created", "updated", "deleted"] as const satisfies ReadonlyArray<Kind>
const origins = ["backfill", "poll", "sweep", "refresh"] as const satisfies ReadonlyArray<Origin>
const reasons = ["flagged", "absent", "erased", "unseen", "forgotten"] as const satisfies ReadonlyArray<DeleteReason>

const Content = Schema.Record(Schema.String, Schema.Unknown)

/** The `data` of an event of any model. */
export const EventData = Schema.Struct({
  integration: Schema.String.annotate({ description: "`<tool>:<identifier>` of the connected system" }),
  model: Schema.String,
  id: Schema.String.annotate({ description: "Unique within the model of the integration" }),
  remote_id: Schema.NullOr(Schema.String).annotate({ description: "The id in the connected system itself" }),
  generation: Schema.Int.annotate({
    description: "Later generations replace earlier ones; order is (generation, version)"
  }),
  version: Schema.Int.annotate({ description: "1, 2, 3 … per record and generation, without gaps" }),
  kind: Schema.Literals(kinds),
  origin: openEnum(...origins).annotate({
    description:
      "Which run found the change; `backfill`: the record existed before, whichever run found it. Further values may be added"
  }),
  before: Schema.NullOr(Content).annotate({
    description: "null on created, on a stub, and if the content is no longer kept"
  }),
  after: Schema.NullOr(Content).annotate({ description: "null on deleted, and on a stub" }),
  changes: Schema.Array(
    Schema.Struct({
      path: Schema.String.annotate({ description: "JSON Pointer; array members that have an id are addressed by it" }),
      before: Schema.optionalKey(Schema.Unknown),
      after: Schema.optionalKey(Schema.Unknown)
    })
  ),
  transitions: Schema.Array(
    Schema.Struct({ name: Schema.String, from: Schema.Unknown, to: Schema.Unknown })
  ),
  reason: Schema.Union([Schema.Literals(reasons), Schema.String, Schema.Null]).annotate({
    description: "Why the record is considered deleted. Further values may be added"
  }),
  restored: Schema.Boolean.annotate({ description: "Created again after it was deleted" }),
  changed_at: Schema.NullOr(Schema.String).annotate({ description: "As the API shows it" }),
  detected_at: Schema.String.annotate({
    description: "When Rollcall detected the change, ISO 8601",
    format: "date-time"
  }),
  cause: Schema.NullOr(
    Schema.Struct({
      plugin: Schema.String,
      delivery: Schema.String,
      depth: Schema.Int,
      paths: Schema.Array(Schema.String)
    })
  ).annotate({ description: "The write of a plugin that caused the change" }),
  stub: Schema.optionalKey(Schema.Literal(true)).annotate({
    description: "The event was too large for the topic: `log` is the path where the whole event can be read"
  }),
  log: Schema.optionalKey(Schema.String)
})
export type EventData = typeof EventData.Type

const instant = (description: string) => Schema.String.annotate({ description, format: "date-time" })

/** A value of the progress topic (`rollcall.progress` for the default template); its key is the stream's name, `<integration>/<model>`. */
export const ProgressData = Schema.Struct({
  store: Schema.String.annotate({ description: "Id of the store that published; positions start with it" }),
  generation: Schema.Int.annotate({ description: "Progress of the stream in earlier generations is no longer valid" }),
  complete_to: instant("Server time: every change up to this time is published or pending"),
  position: Schema.String.annotate({ description: "Position of the log: every event up to it is published" }),
  at: instant("When the progress was read")
})
export type ProgressData = typeof ProgressData.Type
