/** What capture measures. Labels are stream parts and reasons, never record ids (I11). */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { OpenExpectation } from "../domain/Expectation.ts"
import type { StreamKey } from "../domain/Model.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { RowCounts, StreamState } from "../store/State.ts"
import type { DetectedEvent } from "./guard/StagedChanges.ts"

const seconds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14_400, 86_400]

const records = Metric.counter("rollcall_records_read_total", {
  description: "Rows read from the API, by what they turned out to be",
  incremental: true
})
const events = Metric.counter("rollcall_events_detected_total", {
  description: "Changes entered into the event log",
  incremental: true
})
const detection = Metric.histogram("rollcall_detection_delay_seconds", {
  description: "From changed_at, as the API shows it, to the event's entry into the log; backfill left out",
  boundaries: seconds
})
const pages = Metric.histogram("rollcall_page_commit_seconds", {
  description: "Duration of the transaction that takes one page in",
  boundaries: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
})
const runs = Metric.counter("rollcall_runs_total", {
  description: "Polls and sweeps by how they ended",
  incremental: true
})
const clockSkew = Metric.counter("rollcall_clock_skew_total", {
  description: "Answers whose Date header disagreed with what was known of the server's clock",
  incremental: true
})
const miscountedRuns = Metric.counter("rollcall_runs_miscounted_total", {
  description: "Readings whose rows do not add up; never expected",
  incremental: true
})
const missedRecords = Metric.counter("rollcall_sweep_missed_records_total", {
  description: "Records a sweep did not meet although they are still there, as a confirm showed",
  incremental: true
})

const beyondOverlap = Metric.counter("rollcall_changes_beyond_overlap_total", {
  description: "Pages with a change shown so late that polls had stopped looking back for it; a sweep found it",
  incremental: true
})
const schemaDrift = Metric.counter("rollcall_schema_drift_total", {
  description:
    "Records, of a sample of those that changed, that are not what the contract says, by path; published all the same",
  incremental: true
})
const filterless = Metric.counter("rollcall_poll_filter_failures_total", {
  description: "Times it was noticed that updated_after does not work: everything comes back, or nothing",
  incremental: true
})
const refreshes = Metric.counter("rollcall_refreshed_records_total", {
  description: "Records re-read because content they repeat was seen changed elsewhere, by what came of it",
  incremental: true
})
const unconfirmed = Metric.counter("rollcall_writes_unconfirmed_total", {
  description: "Writes of plugins that should show in a model that is read, and that two complete sweeps did not find",
  incremental: true
})

const labels = (key: StreamKey) => ({ integration: key.integration, model: key.model })
const count = (
  metric: Metric.Counter<number>,
  amount: number,
  attributes: Readonly<Record<string, string>>
): Effect.Effect<void> => amount === 0 ? Effect.void : Metric.update(Metric.withAttributes(metric, attributes), amount)

/** Rows of a committed page and how long the commit took (ms). */
export const pageCommitted = Effect.fnUntraced(function*(key: StreamKey, rowCounts: RowCounts, duration: number) {
  for (const [outcome, amount] of Object.entries(rowCounts)) {
    if (outcome !== "read") yield* count(records, amount, { ...labels(key), outcome })
  }
  yield* Metric.update(pages, duration / 1000)
})

/** Of a stream, and of what is derived of it. */
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
/** All ms: how late a change was shown, and how far polls look back before and from now on. */
export const lateChangeFound = Effect.fnUntraced(
  function*(key: StreamKey, lag: number, overlap: { readonly before: number; readonly after: number }) {
    const isBeyond = lag > overlap.before
    if (isBeyond) yield* count(beyondOverlap, 1, labels(key))
    if (!isBeyond && overlap.after === overlap.before) return
    const log = isBeyond ? Effect.logWarning : Effect.logInfo
    yield* log("a change was shown late; polls look back as far as margin says").pipe(
      Effect.annotateLogs({
        integration: key.integration,
        model: key.model,
        late: Duration.format(Duration.millis(lag)),
        margin: Duration.format(Duration.millis(overlap.after))
      })
    )
  }
)
export const pollFilterChanged = Effect.fnUntraced(function*(key: StreamKey, polls: StreamState["pollsReturn"]) {
  if (polls !== undefined) yield* count(filterless, 1, { ...labels(key), polls })
  const message = polls === "everything"
    ? "updated_after is ignored: every poll reads the whole list, so polls come less often"
    : polls === "nothing"
    ? "polls found nothing of what a sweep then found: updated_after is not answered, so sweeps come more often"
    : "polls are answered what changed again"
  yield* (polls === undefined ? Effect.logInfo : Effect.logWarning)(message).pipe(
    Effect.annotateLogs({ integration: key.integration, model: key.model })
  )
})
/** JSON Pointers of the schema, one for each record that departs there. */
export const schemaDrifted = Effect.fnUntraced(function*(key: StreamKey, paths: ReadonlyArray<string>) {
  for (const [path, records] of Map.groupBy(paths, (path) => path)) {
    yield* count(schemaDrift, records.length, { model: key.model, path })
  }
})
/** L2: one warning each; what was written is not repeated. */
export const writesUnconfirmed = Effect.fnUntraced(function*(
  { integration }: StreamKey,
  writes: ReadonlyArray<OpenExpectation>
) {
  for (const { delivery, key, model, name, plugin } of writes) {
    yield* count(unconfirmed, 1, { integration, model })
    yield* Effect.logWarning("a write is not shown: it was lost, or undone at once").pipe(
      Effect.annotateLogs({ integration, model, plugin, delivery, write: name, record: key })
    )
  }
})
