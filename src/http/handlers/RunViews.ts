/** The runs of a stream, with the reason why each ended in words. */
import { gapReasons, hasConsistentCounts } from "../../capture/commit/RunHistory.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { EndedRun, IdlePolls, Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import type { IdlePollsView, RunView, StreamRuns } from "../contract/RunApi.ts"

const reasonOf = ({ outcome, reason }: Pick<EndedRun, "outcome" | "reason">): string | null => {
  if (outcome === "replaced") return "an operator started another sweep"
  return reason === null ? null : gapReasons[reason as keyof typeof gapReasons] ?? reason
}

const idleView = (idle: IdlePolls | null | undefined): IdlePollsView | null =>
  idle == null ? null : { ...idle, since: formatTime(idle.since), until: formatTime(idle.until) }

type Counted = Pick<Run, "kind" | "backfill" | "pages" | "startedAt" | "rowCounts" | "published">

const countsOf = ({ backfill, kind, pages, published, rowCounts, startedAt }: Counted) => {
  return {
    kind: backfill ? "backfill" as const : kind,
    started_at: formatTime(startedAt),
    pages,
    ...published ?? { created: 0, updated: 0, deleted: 0 },
    ...rowCounts,
    balanced: hasConsistentCounts(rowCounts)
  }
}

const endedView = (run: EndedRun): RunView => ({
  ...countsOf(run),
  number: run.number,
  pass: run.pass,
  ended_at: formatTime(run.endedAt),
  outcome: run.outcome,
  reason: reasonOf(run),
  times: run.times,
  idle_before: idleView(run.idle)
})

const runningView = (run: Run): RunView => ({
  ...countsOf(run),
  number: null,
  pass: run.pass ?? 1,
  ended_at: null,
  outcome: "running",
  reason: null,
  times: 1,
  idle_before: null
})

/** `runs`: the history, newest first. */
export const runsOf = (
  { idlePolls, sweep }: Pick<StreamState, "idlePolls" | "sweep">,
  runs: ReadonlyArray<EndedRun>
): StreamRuns => ({
  idle: idleView(idlePolls),
  items: [...sweep === null ? [] : [runningView(sweep)], ...runs.map(endedView)]
})
