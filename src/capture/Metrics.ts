/**
 * Metrics of capture, and the log lines that belong to them. Labels are models, outcomes and reasons. They are never record ids (I11),
 * and never integrations, because each of thousands of integrations would add series (I9). The log lines name the integration.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { NewEvent } from "../domain/ChangeEvent.ts"
import type { OpenExpectation } from "../domain/Expectation.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { RowCounts } from "../store/Run.ts"
import type { StreamState } from "../store/State.ts"
import { annotate } from "./Stream.ts"

/** The properties of a published event that metrics and the guard use. */
export interface DetectedEvent extends Pick<NewEvent, "kind" | "restored" | "origin" | "changedAt" | "detectedAt"> {
  readonly model: Model
}

const labels = ({ model }: Pick<StreamKey, "model">) => ({ model })

/** A counter by labels. Adding 0 creates no series. */
const counter = (name: string, description: string) => {
  const metric = Metric.counter(name, { description, incremental: true })
  return (count: number, attributes: Readonly<Record<string, string>>): Effect.Effect<void> =>
    count === 0 ? Effect.void : Metric.update(Metric.withAttributes(metric, attributes), count)
}

const countRecords = counter("rollcall_records_read_total", "Rows that were read from the API, by model and outcome")
const countEvents = counter(
  "rollcall_events_detected_total",
  "Changes that were appended to the event log, by model and kind"
)
const countRuns = counter("rollcall_runs_total", "Polls and sweeps, by model, kind and outcome")
const countClockSkews = counter(
  "rollcall_clock_skew_total",
  "Jumps of the clock in the API's Date header, or of the clock of this machine"
)
const countMiscountedRuns = counter(
  "rollcall_runs_miscounted_total",
  "Runs whose row counts did not add up: if it is not 0, Rollcall has a bug, so please report it"
)
const countMissedRecords = counter(
  "rollcall_sweep_missed_records_total",
  "Records that a sweep did not read although they still exist, as a confirmation showed"
)
const countBeyondOverlap = counter(
  "rollcall_changes_beyond_overlap_total",
  "Pages with a change that the API showed so late that only a sweep found it; polls then read back further, at most six hours"
)
const countSchemaDrift = counter(
  "rollcall_schema_drift_total",
  "Changed records that do not match the contract, by model and path. Up to 5 per page are checked; all are published"
)
const countFilterFailures = counter(
  "rollcall_poll_filter_failures_total",
  "Times that updated_after was found not to work, by what polls return: everything, or nothing of the changes that a sweep then finds"
)
const countRefreshed = counter("rollcall_refreshed_records_total", "Stale records that were read again, by outcome")
const countUnconfirmed = counter(
  "rollcall_writes_unconfirmed_total",
  "Plugin writes that two complete sweeps did not find, although their model is read; the log names them"
)
const failedRewrites = Metric.gauge("rollcall_redaction_failed_streams", {
  description:
    "Streams whose stored content could not be redacted or encrypted, because a row is damaged; the journal counts as one stream"
})
const detectionDelay = Metric.histogram("rollcall_detection_delay_seconds", {
  description: "Time from changed_at, as the API shows it, until the change was detected, by model, without backfills",
  boundaries: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14_400, 86_400]
})
const commitDuration = Metric.histogram("rollcall_page_commit_duration_seconds", {
  description: "Duration of the transaction that commits a page of records to the store",
  boundaries: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
})

/** Counts the rows of a committed page and measures the duration of the commit (ms). */
export const pageCommitted = Effect.fnUntraced(function*(key: StreamKey, rowCounts: RowCounts, duration: number) {
  for (const [outcome, count] of Object.entries(rowCounts)) {
    if (outcome !== "read") yield* countRecords(count, { ...labels(key), outcome })
  }
  yield* Metric.update(commitDuration, duration / 1000)
})

/** Counts the events of a stream and of the model derived from it. */
export const eventsDetected = Effect.fnUntraced(function*(found: ReadonlyArray<DetectedEvent>) {
  for (const [model, own] of Map.groupBy(found, (event) => event.model)) {
    for (const [kind, group] of Map.groupBy(own, (event) => event.kind)) {
      yield* countEvents(group.length, { model, kind })
    }
  }
  for (const event of found) {
    const changedAt = parseTime(event.changedAt)
    if (event.origin === "backfill" || changedAt === null) continue
    yield* Metric.update(
      Metric.withAttributes(detectionDelay, { model: event.model }),
      Math.max(0, event.detectedAt - changedAt) / 1000
    )
  }
})

/** `count`: the number of streams and journals that keep content that should have been rewritten. */
export const rewritesFailed = (count: number) => Metric.update(failedRewrites, count)

export const runEnded = (key: StreamKey, kind: string, outcome: string) =>
  countRuns(1, { ...labels(key), kind, outcome })
export const clockSkewDetected = (key: StreamKey) => countClockSkews(1, labels(key))
export const runMiscounted = (key: StreamKey) => countMiscountedRuns(1, labels(key))
export const recordsMissed = (key: StreamKey, count: number) => countMissedRecords(count, labels(key))
export const refreshed = (key: StreamKey, outcome: "changed" | "unchanged" | "uncounted", count: number) =>
  countRefreshed(count, { ...labels(key), outcome })
/** `lag`: how late a change became visible; `overlap`: how far polls read back, before this page and from now on. Both in ms. */
export const lateChangeFound = Effect.fnUntraced(
  function*(key: StreamKey, lag: number, overlap: { readonly before: number; readonly after: number }) {
    const isBeyond = lag > overlap.before
    if (isBeyond) yield* countBeyondOverlap(1, labels(key))
    if (!isBeyond && overlap.after === overlap.before) return
    const log = isBeyond ? Effect.logWarning : Effect.logInfo
    const format = (millis: number) => Duration.format(Duration.millis(millis))
    const message = overlap.after > overlap.before
      ? "late change: poll overlap extended"
      : "late change: poll overlap is at its maximum"
    yield* log(message).pipe(
      annotate(key, { late: format(lag), overlap: format(overlap.after) })
    )
  }
)
export const pollFilterChanged = Effect.fnUntraced(function*(key: StreamKey, polls: StreamState["pollsReturn"]) {
  if (polls !== undefined) yield* countFilterFailures(1, { ...labels(key), polls })
  const message = polls === "everything"
    ? "the API ignores updated_after: every poll reads the whole list, so polls run less often"
    : polls === "nothing"
    ? "a sweep found changes that polls did not return: updated_after does not work, so sweeps run more often"
    : "updated_after works again: polls return the changed records"
  yield* (polls === undefined ? Effect.logInfo : Effect.logWarning)(message).pipe(annotate(key))
})
/** `paths`: JSON Pointers of the schema, one for each record and path that does not match. */
export const schemaDrifted = Effect.fnUntraced(function*(key: StreamKey, paths: ReadonlyArray<string>) {
  for (const [path, records] of Map.groupBy(paths, (path) => path)) {
    yield* countSchemaDrift(records.length, { model: key.model, path })
  }
})
/** Logs one warning per write, without the written values (L2). */
export const writesUnconfirmed = Effect.fnUntraced(function*(
  { integration }: StreamKey,
  writes: ReadonlyArray<OpenExpectation>
) {
  for (const { delivery, key, model, name, plugin } of writes) {
    yield* countUnconfirmed(1, { model })
    yield* Effect.logWarning("plugin write not found by two sweeps: it was lost or undone").pipe(
      annotate({ integration, model }, { plugin, delivery, write: name, record: key })
    )
  }
})
