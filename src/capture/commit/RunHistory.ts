/**
 * The history of a stream's runs: which runs get an entry, and what is in it.
 *
 * Invariants
 * 1. Polls that found nothing new get no entry: the stream's state counts them, and the next entry contains the count   (I9)
 * 2. Failures in a row are one entry, whose count and end are updated
 *
 * Gotchas
 * - A poll that is interrupted when the process ends gets no entry: its state is in memory only, and the next poll reads the same changes.
 */
import type { Model } from "../../domain/Model.ts"
import { type EndedRun, type PublishedCounts, type RowCounts, type Run, zeroRowCounts } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import type { DetectedEvent } from "../Metrics.ts"

/** The events of the stream by kind, without those of a derived model; absent if there are none. */
export const publishedIn = (model: Model, events: ReadonlyArray<DetectedEvent>): PublishedCounts | undefined => {
  const counts = { created: 0, updated: 0, deleted: 0 }
  for (const event of events) if (event.model === model) counts[event.kind]++
  return counts.created + counts.updated + counts.deleted === 0 ? undefined : counts
}

export const addPublished = (
  one: PublishedCounts | undefined,
  other: PublishedCounts | undefined
): PublishedCounts | undefined =>
  one === undefined || other === undefined ? one ?? other : {
    created: one.created + other.created,
    updated: one.updated + other.updated,
    deleted: one.deleted + other.deleted
  }

/** Why a run may have skipped records. */
export const gapReasons: Record<NonNullable<Run["possibleGap"]>, string> = {
  change: "records changed while the list was read",
  pause: "there was a long pause between two pages",
  hidden: "the list did not contain records that exist",
  restart: "another process had read the first pages"
}

/** True if the outcomes add up to the rows read (I1). */
export const hasConsistentCounts = ({ read, ...rows }: RowCounts): boolean =>
  Object.values(rows).reduce((sum, count) => sum + count, 0) === read

export interface Ended {
  readonly state: StreamState
  /** null: the run gets no entry. */
  readonly entry: EndedRun | null
}

type Result = Omit<EndedRun, "number" | "idle">

/** The next failure gets an entry of its own. */
const endFailures = (state: StreamState): StreamState =>
  state.lastFailure == null ? state : { ...state, lastFailure: null }

const withEntry = ({ idlePolls, ...state }: StreamState, result: Result): Ended => {
  const number = (state.recordedRuns ?? 0) + 1
  return {
    state: endFailures({ ...state, recordedRuns: number }),
    entry: { ...result, number, idle: idlePolls ?? null }
  }
}

const withoutEntry = (state: StreamState, { endedAt, rowCounts, startedAt }: Result): Ended => {
  const { polls, read, since } = state.idlePolls ?? { polls: 0, read: 0, since: startedAt }
  const idlePolls = { polls: polls + 1, read: read + rowCounts.read, since, until: endedAt }
  return { state: endFailures({ ...state, idlePolls }), entry: null }
}

const resultOf = (run: Run, endedAt: number): Omit<Result, "outcome" | "reason"> => ({
  id: run.id,
  kind: run.kind,
  backfill: run.backfill,
  pass: run.pass ?? 1,
  startedAt: run.startedAt,
  endedAt,
  pages: run.pages,
  rowCounts: run.rowCounts,
  ...run.published === undefined ? {} : { published: run.published },
  times: 1
})

/** Rows that an earlier poll found too, such as those of a hold, are read again as long as the overlap covers them. */
const foundNothing = ({ published, rowCounts }: Run, before: Run | null): boolean =>
  published === undefined && rowCounts.changed === 0 && hasConsistentCounts(rowCounts) &&
  rowCounts.pending <= (before?.rowCounts.pending ?? 0) && rowCounts.quarantined <= (before?.rowCounts.quarantined ?? 0)

/**
 * Ends the run that `state` has as its last poll or its last sweep. `before`: the state without the run; `released`: what its end
 * published.
 */
export const endRun = (
  state: StreamState,
  { before, kind, released }: {
    readonly kind: Run["kind"]
    readonly before: StreamState
    readonly released?: PublishedCounts | undefined
  }
): Ended => {
  const last = kind === "poll" ? "lastPoll" : "lastSweep"
  const run = state[last]
  if (run === null || run.id === before[last]?.id) return { state, entry: null }
  const published = addPublished(run.published, released)
  const ended = published === undefined ? run : { ...run, published }
  const next = published === run.published ? state : { ...state, [last]: ended }
  const repeats = ended.mustRepeat === true
  const result: Result = {
    ...resultOf(ended, ended.endedAt),
    outcome: repeats ? "repeated" : "complete",
    reason: ended.possibleGap ?? null
  }
  // for a list that the API only returns as a whole, sweeps take the place of polls
  const isPoll = kind === "poll" || state.lastPoll?.id === run.id
  return isPoll && !repeats && foundNothing(ended, before[last]) ? withoutEntry(next, result) : withEntry(next, result)
}

/** An operator's command replaced a sweep that was not complete. */
export const replaceRun = (state: StreamState, run: Run, now: number): Ended =>
  withEntry(state, { ...resultOf(run, now), outcome: "replaced", reason: null })

/**
 * Ends a run with a failure. `state`: after the failure. `run`: the run with its latest counts; null if it did not start, or if another step
 * failed, which `kind` names.
 */
export const failRun = (
  state: StreamState,
  { kind, message, now, run }: {
    readonly run: Run | null
    readonly kind: EndedRun["kind"]
    readonly message: string
    readonly now: number
  }
): Ended & { readonly entry: EndedRun } => {
  // a blocked stream whose probe failed without a reason to block is failing too
  const outcome = state.failing === null ? "blocked" : "failed"
  const nothing = {
    id: null,
    kind,
    backfill: false,
    pass: 1,
    startedAt: now,
    endedAt: now,
    pages: 0,
    rowCounts: zeroRowCounts,
    times: 1
  }
  const result: Result = { ...run === null ? nothing : resultOf(run, now), outcome, reason: message }
  const last = state.lastFailure ?? null
  if (last?.outcome !== outcome) {
    const { entry, state: next } = withEntry(state, result)
    const { idle, number } = entry!
    return {
      entry: entry!,
      state: { ...next, lastFailure: { outcome, times: 1, since: result.startedAt, number, idle } }
    }
  }
  const times = last.times + 1
  const entry: EndedRun = { ...result, number: last.number, startedAt: last.since, times, idle: last.idle }
  return { entry, state: { ...state, lastFailure: { ...last, times } } }
}
