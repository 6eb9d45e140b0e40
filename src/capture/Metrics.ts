/** Metrics of capture, and the log lines that belong to them. Labels are integration, model and reasons, never record ids (I11). */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { NewEvent } from "../domain/ChangeEvent.ts"
import type { OpenExpectation } from "../domain/Expectation.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { RowCounts, StreamState } from "../store/State.ts"

/** The properties of a published event that metrics and the guard use. */
export interface DetectedEvent extends Pick<NewEvent, "kind" | "restored" | "origin" | "changedAt" | "detectedAt"> {
  readonly model: Model
}

const seconds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14_400, 86_400]

const records = Metric.counter("rollcall_records_read_total", {
  description: "Rows read from the API, by outcome",
  incremental: true
})
const events = Metric.counter("rollcall_events_detected_total", {
  description: "Changes appended to the event log",
  incremental: true
})
const detection = Metric.histogram("rollcall_detection_delay_seconds", {
  description: "Time from changed_at, as the API shows it, until the event is appended to the log; backfills excluded",
  boundaries: seconds
})
const pages = Metric.histogram("rollcall_page_commit_seconds", {
  description: "Duration of the transaction that commits one page",
  boundaries: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
})
const runs = Metric.counter("rollcall_runs_total", {
  description: "Polls and sweeps, by outcome",
  incremental: true
})
const clockSkew = Metric.counter("rollcall_clock_skew_total", {
  description: "Responses whose Date header did not fit the known offset of the server's clock",
  incremental: true
})
const miscountedRuns = Metric.counter("rollcall_runs_miscounted_total", {
  description: "Runs whose row counts do not add up; always 0 unless Rollcall has a bug",
  incremental: true
})
const missedRecords = Metric.counter("rollcall_sweep_missed_records_total", {
  description: "Records that a sweep did not read although they still exist, as a confirm showed",
  incremental: true
})

const beyondOverlap = Metric.counter("rollcall_changes_beyond_overlap_total", {
  description: "Pages with a change that became visible later than the poll overlap covers; a sweep found it",
  incremental: true
})
const schemaDrift = Metric.counter("rollcall_schema_drift_total", {
  description: "Changed records, in a sample, that do not match the schema, by path; they are still published",
  incremental: true
})
const filterless = Metric.counter("rollcall_poll_filter_failures_total", {
  description: "Times that updated_after was found not to work: polls return the whole list, or nothing",
  incremental: true
})
const refreshes = Metric.counter("rollcall_refreshed_records_total", {
  description: "Stale records that were refetched, by outcome",
  incremental: true
})
const unconfirmed = Metric.counter("rollcall_writes_unconfirmed_total", {
  description:
    "Plugin writes that should be visible in a model that is read, but that two complete sweeps did not find",
  incremental: true
})

const labels = (key: StreamKey) => ({ integration: key.integration, model: key.model })
const count = (
  metric: Metric.Counter<number>,
  amount: number,
  attributes: Readonly<Record<string, string>>
): Effect.Effect<void> => amount === 0 ? Effect.void : Metric.update(Metric.withAttributes(metric, attributes), amount)

/** Counts the rows of a committed page and measures the duration of the commit (ms). */
export const pageCommitted = Effect.fnUntraced(function*(key: StreamKey, rowCounts: RowCounts, duration: number) {
  for (const [outcome, amount] of Object.entries(rowCounts)) {
    if (outcome !== "read") yield* count(records, amount, { ...labels(key), outcome })
  }
  yield* Metric.update(pages, duration / 1000)
})

/** Counts the events of a stream and of the model derived from it. */
export const eventsDetected = Effect.fnUntraced(function*(key: StreamKey, found: ReadonlyArray<DetectedEvent>) {
  for (const [model, own] of Map.groupBy(found, (event) => event.model)) {
    for (const [kind, group] of Map.groupBy(own, (event) => event.kind)) {
      yield* count(events, group.length, { ...labels({ ...key, model }), kind })
    }
  }
  for (const event of found) {
    const changedAt = parseTime(event.changedAt)
    if (event.origin === "backfill" || changedAt === null) continue
    yield* Metric.update(
      Metric.withAttributes(detection, { model: event.model }),
      Math.max(0, event.detectedAt - changedAt) / 1000
    )
  }
})

export const runEnded = (key: StreamKey, kind: string, outcome: string) =>
  count(runs, 1, { ...labels(key), kind, outcome })
export const clockSkewDetected = (key: StreamKey) => count(clockSkew, 1, labels(key))
export const runMiscounted = (key: StreamKey) => count(miscountedRuns, 1, labels(key))
export const recordsMissed = (key: StreamKey, amount: number) => count(missedRecords, amount, labels(key))
export const refreshed = (key: StreamKey, outcome: "changed" | "unchanged" | "uncounted", amount: number) =>
  count(refreshes, amount, { ...labels(key), outcome })
/** `lag`: how late a change became visible; `overlap`: how far polls read back, before this page and from now on. All ms. */
export const lateChangeFound = Effect.fnUntraced(
  function*(key: StreamKey, lag: number, overlap: { readonly before: number; readonly after: number }) {
    const isBeyond = lag > overlap.before
    if (isBeyond) yield* count(beyondOverlap, 1, labels(key))
    if (!isBeyond && overlap.after === overlap.before) return
    const log = isBeyond ? Effect.logWarning : Effect.logInfo
    yield* log("late change: poll overlap extended").pipe(
      Effect.annotateLogs({
        ...labels(key),
        late: Duration.format(Duration.millis(lag)),
        overlap: Duration.format(Duration.millis(overlap.after))
      })
    )
  }
)
export const pollFilterChanged = Effect.fnUntraced(function*(key: StreamKey, polls: StreamState["pollsReturn"]) {
  if (polls !== undefined) yield* count(filterless, 1, { ...labels(key), polls })
  const message = polls === "everything"
    ? "the API ignores updated_after: every poll reads the whole list, so polls run less often"
    : polls === "nothing"
    ? "a sweep found changes that polls did not return: updated_after does not work, so sweeps run more often"
    : "updated_after works again: polls return the changed records"
  yield* (polls === undefined ? Effect.logInfo : Effect.logWarning)(message).pipe(
    Effect.annotateLogs(labels(key))
  )
})
/** `paths`: JSON Pointers of the schema, one for each record and path that does not match. */
export const schemaDrifted = Effect.fnUntraced(function*(key: StreamKey, paths: ReadonlyArray<string>) {
  for (const [path, records] of Map.groupBy(paths, (path) => path)) {
    yield* count(schemaDrift, records.length, { model: key.model, path })
  }
})
/** Logs one warning per write, without the written values (L2). */
export const writesUnconfirmed = Effect.fnUntraced(function*(
  { integration }: StreamKey,
  writes: ReadonlyArray<OpenExpectation>
) {
  for (const { delivery, key, model, name, plugin } of writes) {
    yield* count(unconfirmed, 1, { integration, model })
    yield* Effect.logWarning("plugin write not found by two sweeps: it was lost or undone").pipe(
      Effect.annotateLogs({ integration, model, plugin, delivery, write: name, record: key })
    )
  }
})
