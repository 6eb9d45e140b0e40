/** The part of the operating API's contract that is about streams: how each stands, what can be done to it, and its audit. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { streamCommands } from "../../capture/schedule/StreamCommands.ts"
import { Conflict, NotFound, SourceUnavailable, StoreUnavailable } from "../Problem.ts"
import { Instant, Model, page } from "../Schemas.ts"

const SweepProgress = Schema.Struct({
  kind: Schema.Literals(["backfill", "sweep"]),
  /** The list is read again where it changed, or Rollcall was restarted, while it was read. */
  pass: Schema.Number,
  records: Schema.Number,
  pages: Schema.Number,
  started_at: Schema.String,
  records_per_second: Schema.Number,
  /** null during a backfill: the API does not say how much there is. */
  seconds_left: Schema.NullOr(Schema.Number)
})

export const StreamView = Schema.Struct({
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  phase: Schema.Literals(["starting", "backfilling", "live"]),
  paused: Schema.Boolean,
  blocked: Schema.NullOr(Schema.Struct({ reason: Schema.String, message: Schema.String, since: Schema.String })),
  failing: Schema.NullOr(Schema.Struct({ count: Schema.Number, message: Schema.String, since: Schema.String })),
  watermark: Instant,
  generation: Schema.Number,
  /** Every change up to then is in the log or pending; null before the backfill is complete. Never earlier than it was. */
  complete_to: Instant,
  /** Of the log: what made that so lies at or before it. */
  position: Schema.String,
  /** Now − watermark, seconds; null until the first answer. */
  freshness_seconds: Schema.NullOr(Schema.Number),
  records_live: Schema.Number,
  pending: Schema.Record(Schema.String, Schema.Number),
  quarantined: Schema.Number,
  /** Records to be re-read because content they repeat was seen changed elsewhere. */
  stale_records: Schema.Number,
  /** What polls are answered: the changes, everything (`updated_after` is ignored) or nothing (it finds nothing). */
  polls_return: Schema.Literals(["changes", "everything", "nothing"]),
  progress: Schema.NullOr(SweepProgress),
  last_poll_at: Instant,
  last_sweep_at: Instant
})
export type StreamView = typeof StreamView.Type

/** `as_of`: when this was read from the store; while the store does not answer, it is as it was last read. */
const StreamList = Schema.Struct({ ...page(StreamView).fields, as_of: Schema.String })

/** What is published of a stream beside what the API shows. Ids only, never content. */
export const AuditView = Schema.Struct({
  stream: Schema.String,
  read: Schema.Number,
  pending: Schema.Record(Schema.String, Schema.Number),
  quarantined: Schema.Number,
  differing: Schema.Number,
  /** The first thousand. */
  differences: Schema.Array(Schema.Struct({
    id: Schema.String,
    what: Schema.Literals(["unknown", "gone", "deleted", "content"]),
    paths: Schema.Array(Schema.String)
  }))
})
export type AuditView = typeof AuditView.Type

export const streams = HttpApiGroup.make("streams").add(
  HttpApiEndpoint.get("streams", "/v1/streams", { success: StreamList, error: StoreUnavailable }),
  HttpApiEndpoint.get("stream", "/v1/streams/:integration/:model", {
    params: { integration: Schema.String, model: Model },
    success: StreamView,
    error: [NotFound, StoreUnavailable]
  })
)

export const commandEndpoints = HttpApiGroup.make("streamCommands").add(
  HttpApiEndpoint.post("command", "/v1/streams/:integration/:model/:command", {
    params: { integration: Schema.String, model: Model, kind: Schema.Literals(streamCommands) },
    success: StreamView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Answers at once with the stream as it is now; what has to be read is read after the page under way. `pause` keeps the " +
      "stream as it is until `resume`, which also tries a blocked one at once. `sweep` begins a full reading anew, `backfill` " +
      "one after which nothing that it found counts as new."
  ),
  HttpApiEndpoint.post("rewind", "/v1/streams/:integration/:model/rewind", {
    params: { integration: Schema.String, model: Model },
    payload: Schema.Struct({ to: Schema.DateTimeUtcFromString }),
    success: StreamView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Sets the watermark back: the next poll reads from there, less the margin. What it meets and is published already " +
      "makes no event. `complete_to` stays as it is."
  ),
  HttpApiEndpoint.post("audit", "/v1/streams/:integration/:model/audit", {
    params: { integration: Schema.String, model: Model },
    success: AuditView,
    error: [NotFound, SourceUnavailable, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Reads the whole stream and compares it with what its events add up to; publishes nothing. Answers when it is done."
  )
)
