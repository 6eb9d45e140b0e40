/** The runs of a stream, in the contract of the operating API. */
import * as Schema from "effect/Schema"
import { Instant } from "./Schemas.ts"

const IdlePolls = Schema.Struct({
  polls: Schema.Int,
  read: Schema.Int.annotate({ description: "Records that they read nevertheless, because polls overlap" }),
  since: Schema.String,
  until: Schema.String
})
export type IdlePollsView = typeof IdlePolls.Type

export const RunView = Schema.Struct({
  number: Schema.NullOr(Schema.Int).annotate({ description: "1, 2, 3 … per stream; null while it runs" }),
  kind: Schema.Literals(["poll", "sweep", "backfill"]),
  pass: Schema.Int,
  started_at: Schema.String,
  ended_at: Instant.annotate({ description: "null while it runs" }),
  outcome: Schema.Literals(["running", "complete", "repeated", "failed", "blocked", "replaced"]).annotate({
    description:
      "`repeated`: it may have skipped records, so the list is read again. `blocked`: it failed, and only a person or the API can help. " +
      "`replaced`: an operator started another sweep"
  }),
  reason: Schema.NullOr(Schema.String).annotate({ description: "Why it ended like this, in words" }),
  times: Schema.Int.annotate({
    description: "Failures in a row are one entry, from the beginning of the first to the end of the newest"
  }),
  pages: Schema.Int,
  created: Schema.Int.annotate({ description: "Events that it published, by kind" }),
  updated: Schema.Int,
  deleted: Schema.Int,
  read: Schema.Int,
  unchanged: Schema.Int,
  equivalent: Schema.Int,
  changed: Schema.Int,
  tombstones: Schema.Int,
  duplicates: Schema.Int,
  pending: Schema.Int,
  quarantined: Schema.Int,
  balanced: Schema.Boolean.annotate({ description: "Whether `read` is the sum of its outcomes, as it must be" }),
  idle_before: Schema.NullOr(IdlePolls).annotate({
    description: "The polls between this run and the one before it, which found nothing new"
  })
}).annotate({ identifier: "Run" })
export type RunView = typeof RunView.Type

export const StreamRuns = Schema.Struct({
  idle: Schema.NullOr(IdlePolls).annotate({ description: "The polls since the newest run, which found nothing new" }),
  items: Schema.Array(RunView).annotate({ description: "The sweep in progress, and the runs that ended, newest first" })
}).annotate({ identifier: "StreamRuns" })
export type StreamRuns = typeof StreamRuns.Type
