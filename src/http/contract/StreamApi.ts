/** The endpoints of the operating API for streams: their state, the operator's commands, and the audit. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { streamCommands } from "../../capture/schedule/StreamCommands.ts"
import { callProblems, Conflict, NotFound, SourceUnavailable } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { Instant, KnownModel, Limit, Model, oneOrMore, page, Time, words } from "./Schemas.ts"

const SweepProgress = Schema.Struct({
  kind: Schema.Literals(["backfill", "sweep"]),
  /** Starts at 1. Another pass follows if a pass may have skipped records. */
  pass: Schema.Int,
  records: Schema.Int,
  pages: Schema.Int,
  started_at: Schema.String,
  records_per_second: Schema.Finite,
  /** Null during a backfill, because the API does not report the number of records. */
  seconds_left: Schema.NullOr(Schema.Finite)
})

/** Progress of redacting content that was stored before a rule was added. */
const RedactionProgress = Schema.Struct({
  started_at: Schema.String,
  /** Rows that were rewritten. */
  rows: Schema.Int,
  /** From 0 to 1: how much of the event log is done. */
  share: Schema.Finite
})

const failureFields = {
  message: Schema.String,
  since: Schema.String,
  /** The page of the API's own log about the last failed request, if the API named one. */
  log_url: Schema.optionalKey(Schema.String)
}

export const StreamView = Schema.Struct({
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  phase: Schema.Literals(["starting", "backfilling", "live"]),
  paused: Schema.Boolean,
  blocked: Schema.NullOr(Schema.Struct({ reason: Schema.String, ...failureFields })),
  failing: Schema.NullOr(Schema.Struct({
    count: Schema.Int,
    ...failureFields,
    opened_by: Schema.optionalKey(Schema.String).annotate({
      description:
        "If an open circuit did not send the last request: the message of the failure that opened the circuit"
    })
  })),
  watermark: Instant,
  generation: Schema.Int,
  /** Every change up to this time is in the log or pending; null before the backfill is complete. Never moves backwards. */
  complete_to: Instant,
  /** Why `complete_to` is behind, and when it moves; null without `complete_to`. */
  complete_to_remark: Schema.NullOr(Schema.String),
  /** A position of the log. The events of all changes up to `complete_to` are at or before this position. */
  position: Schema.String,
  /** Now − watermark, in seconds: a greater value is less fresh. Null until the first response of the API. */
  freshness_seconds: Schema.NullOr(Schema.Finite),
  records_live: Schema.Int,
  pending: Schema.Record(Schema.String, Schema.Int),
  /** Rows of the API that cannot be read as a record: they are stored, and not published. */
  quarantined: Schema.Int,
  /** Records to be fetched again because they contain content of another record that has changed. */
  stale_records: Schema.Int,
  /** The rows that polls return: the changes, everything (the API ignores `updated_after`) or nothing (the filter matches no row). */
  polls_return: Schema.Literals(["changes", "everything", "nothing"]),
  progress: Schema.NullOr(SweepProgress),
  redacting: Schema.NullOr(RedactionProgress),
  last_poll_at: Instant,
  /** End of the last pass over the whole list, even if another pass follows it. */
  last_sweep_at: Instant,
  /** Now − `last_sweep_at`, in seconds; null until the first pass has ended. */
  sweep_age_seconds: Schema.NullOr(Schema.Finite),
  /** Start of the poll that ended at `last_poll_at`, and of the pass that ended at `last_sweep_at`. */
  last_poll_started_at: Instant,
  last_sweep_started_at: Instant,
  /** Whether another pass follows, because the last one may have skipped records. */
  sweep_repeats: Schema.Boolean
}).annotate({ identifier: "Stream" })
export type StreamView = typeof StreamView.Type

/** `accepted_at`: a run that starts at this time or later carries out the command, by the clock of the process that reads the stream. */
export const CommandView = Schema.Struct({ ...StreamView.fields, accepted_at: Schema.String }).annotate({
  identifier: "CommandedStream"
})
export type CommandView = typeof CommandView.Type

/** `<integration>/<model>` in a query. */
const StreamName = Schema.String.check(
  Schema.isPattern(/^[^/]+\/[^/]+$/u, { expected: "`next` of the previous page, such as greenhouse:acme/ats.tag" })
)

/** `as_of`: when the list was read from the store. While the store does not answer, the last list that was read is returned. */
const StreamList = Schema.Struct({ ...page(StreamView).fields, as_of: Schema.String }).annotate({
  identifier: "StreamPage"
})

/** The differences between the published records of a stream and the API. Contains ids only, never content. */
export const AuditView = Schema.Struct({
  stream: Schema.String,
  read: Schema.Int,
  pending: Schema.Record(Schema.String, Schema.Int),
  quarantined: Schema.Int,
  differing: Schema.Int,
  /** At most one thousand differences. */
  differences: Schema.Array(Schema.Struct({
    id: Schema.String,
    what: Schema.Literals(["unknown", "gone", "deleted", "content"]),
    paths: Schema.Array(Schema.String)
  }))
}).annotate({ identifier: "StreamAudit" })
export type AuditView = typeof AuditView.Type

export const streams = HttpApiGroup.make("streams").add(
  HttpApiEndpoint.get("streams", "/v1/streams", {
    query: {
      after: Schema.optionalKey(StreamName),
      limit: Schema.optionalKey(Limit),
      integration: Schema.optionalKey(oneOrMore(Schema.NonEmptyString)),
      model: Schema.optionalKey(oneOrMore(KnownModel))
    },
    success: StreamList
  }).annotateMerge(words(
    "listStreams",
    "List the streams",
    "Lists the streams in the order of integration and model, each with its phase, its progress, the reason why it waits, and the reason why it is " +
      "blocked. `next` is null on the last page; a page can have fewer streams than `limit`."
  )),
  HttpApiEndpoint.get("stream", "/v1/streams/:integration/:model", {
    params: { integration: Schema.String, model: KnownModel },
    success: StreamView,
    error: NotFound
  }).annotateMerge(words(
    "getStream",
    "Get a stream",
    "Returns the state of one stream."
  ))
)

export const commandEndpoints = HttpApiGroup.make("streamCommands").add(
  HttpApiEndpoint.post("command", "/v1/streams/:integration/:model/:command", {
    params: { integration: Schema.String, model: KnownModel, command: Schema.Literals(streamCommands) },
    success: CommandView,
    error: [NotFound, Conflict, ...callProblems]
  }).annotateMerge(words(
    "commandStream",
    "Poll, sweep, backfill, pause or resume a stream",
    "Returns the current state of the stream at once. The command takes effect when the running poll has ended, or after the " +
      "page that a running sweep is reading. `pause` stops reading the stream until `resume`, which also retries a blocked " +
      "stream at once. `sweep` starts a new sweep. `backfill` reads all records again, and those that were not known count as " +
      "old (origin `backfill`)."
  )),
  HttpApiEndpoint.post("rewind", "/v1/streams/:integration/:model/rewind", {
    params: { integration: Schema.String, model: KnownModel },
    payload: Schema.Struct({ to: Time }),
    success: CommandView,
    error: [NotFound, Conflict, ...callProblems]
  }).annotateMerge(words(
    "rewindStream",
    "Read a stream again from a time",
    "Moves the watermark back. The next poll reads from that time, or from the watermark before the last poll if that is " +
      "earlier, minus the overlap. Changes that are already published cause no event. `complete_to` does not change."
  )),
  HttpApiEndpoint.post("audit", "/v1/streams/:integration/:model/audit", {
    params: { integration: Schema.String, model: KnownModel },
    success: AuditView,
    error: [NotFound, Conflict, SourceUnavailable, ...callProblems]
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "auditStream",
    "Compare the published records of a stream with a full read",
    "Reads the whole stream and compares it with its published records. Publishes nothing. Responds when the " +
      "audit is finished."
  ))
)
