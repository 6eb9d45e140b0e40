/**
 * The history of a stream's runs: every run that ended is an entry, or is counted as a poll that found nothing; an entry has the rows that
 * the run was served and the events that it published, and the store keeps the newest entries as they were committed.
 */
import { type EndedRun, keptRuns, type PublishedCounts } from "../../../src/store/Run.ts"
import type { StreamState } from "../../../src/store/State.ts"
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import type { ReportViolation } from "./ObservedStream.ts"

type Kind = keyof PublishedCounts
type Counts = Readonly<Record<Kind, number>>

const none: Counts = { created: 0, updated: 0, deleted: 0 }
const kinds: ReadonlyArray<Kind> = ["created", "updated", "deleted"]

/** A run and the events that it has published so far. */
interface OpenRun {
  readonly id: number
  readonly published: Counts
}

const noRun: OpenRun = { id: 0, published: none }

/** Rows and pages that were served to the run that ends; null if other processes read a part of them. */
export type Served = { readonly rows: number; readonly pages: number } | null

export class RunHistory {
  /** By number; those that the store keeps. */
  #entries = new Map<number, EndedRun>()
  /** Polls without an entry since the newest entry. */
  #idlePolls = 0
  #poll = noRun
  #sweep = noRun

  copy(): RunHistory {
    const copy = new RunHistory()
    copy.#entries = new Map(this.#entries)
    copy.#idlePolls = this.#idlePolls
    copy.#poll = this.#poll
    copy.#sweep = this.#sweep
    return copy
  }

  /** A transaction of the stream, except one that removes a forgotten record. `served`: to the poll, or the sweep, that it ends. */
  committed(
    { after, before, events, holds, runs }: CommittedTransaction,
    served: (kind: EndedRun["kind"]) => Served,
    report: ReportViolation
  ): void {
    const isDecision = holds.some(({ state }) => state === "approving" || state === "approved")
    const published = { ...none }
    for (const { kind } of events) published[kind]++
    if (!isDecision) this.#publish(before, after, published)
    // the sweep of a stream that is never polled may count as a poll that found nothing
    const isOnlySwept = after.lastPoll?.id === after.lastSweep?.id
    if (after.lastSweep?.id !== before.lastSweep?.id) {
      this.#ended("sweep", isOnlySwept, this.#sweep, runs, served, report)
    } else if (after.lastPoll?.id !== before.lastPoll?.id) this.#ended("poll", true, this.#poll, runs, served, report)
    for (const run of runs) this.#record(run, after, report)
  }

  /** After the quiet phase. `stored`: the history in the store. */
  conclude(stored: ReadonlyArray<EndedRun>, report: ReportViolation): void {
    const expected = [...this.#entries.values()].toSorted((one, other) => other.number - one.number)
    if (JSON.stringify(stored) !== JSON.stringify(expected)) {
      report("I2", `the stored history differs from the committed one: ${stored.length} and ${expected.length} entries`)
    }
  }

  /** Adds events to the run whose page the transaction commits. A refresh or a confirmation is not a run. */
  #publish(before: StreamState, after: StreamState, published: Counts): void {
    const add = (run: OpenRun, id: number): OpenRun => ({
      id,
      published: run.id === id ? plus(run.published, published) : published
    })
    if (after.lastSweep !== null && after.lastSweep.id !== before.lastSweep?.id) {
      this.#sweep = add(this.#sweep, after.lastSweep.id)
    } else if (after.lastPoll !== null && after.lastPoll.id !== before.lastPoll?.id) {
      this.#poll = add(this.#poll, after.lastPoll.id)
    } else if (
      after.sweep !== null && after.sweep.pages !== (before.sweep?.id === after.sweep.id ? before.sweep.pages : 0)
    ) {
      this.#sweep = add(this.#sweep, after.sweep.id)
    } else if (after.sweep?.id !== after.lastRunId && after.lastPoll?.id !== after.lastRunId) {
      this.#poll = add(this.#poll, after.lastRunId)
    }
  }

  #ended(
    kind: EndedRun["kind"],
    mayBeIdle: boolean,
    run: OpenRun,
    runs: ReadonlyArray<EndedRun>,
    served: (kind: EndedRun["kind"]) => Served,
    report: ReportViolation
  ): void {
    const entry = runs.find(({ id, outcome }) => id === run.id && (outcome === "complete" || outcome === "repeated"))
    if (entry === undefined) {
      if (!mayBeIdle) report("I1", "the history lacks a sweep")
      this.#idlePolls++
      return checkCounts(run, none, report)
    }
    checkCounts(run, entry.published ?? none, report)
    if (entry.kind !== kind) report("I1", `the history has a ${kind} as a ${entry.kind}`)
    const expected = served(kind)
    const { pages, rowCounts: { read } } = entry
    if (expected === null || (expected.rows === read && expected.pages === pages)) return
    report(
      "I1",
      `the history has ${read} rows on ${pages} pages of a ${kind}, but ${expected.rows} on ${expected.pages} were served`
    )
  }

  #record(run: EndedRun, { recordedRuns }: StreamState, report: ReportViolation): void {
    const newest = Math.max(0, ...this.#entries.keys())
    const isRepeated = run.number === newest && run.times > 1
    if (!isRepeated && run.number !== newest + 1) report("I1", `entry ${run.number} of the history follows ${newest}`)
    if (recordedRuns !== run.number) {
      report("I1", `the newest entry is ${run.number}, and the state says ${recordedRuns}`)
    }
    if (!isRepeated && (run.idle?.polls ?? 0) !== this.#idlePolls) {
      report("I1", `entry ${run.number} counts ${run.idle?.polls ?? 0} polls before it, there were ${this.#idlePolls}`)
    }
    this.#idlePolls = isRepeated ? this.#idlePolls : 0
    this.#entries.set(run.number, run)
    this.#entries.delete(run.number - keptRuns)
  }
}

const plus = (one: Counts, other: Counts): Counts => ({
  created: one.created + other.created,
  updated: one.updated + other.updated,
  deleted: one.deleted + other.deleted
})

const checkCounts = ({ published }: OpenRun, recorded: Counts, report: ReportViolation): void => {
  const wrong = kinds.find((kind) => published[kind] !== recorded[kind])
  if (wrong === undefined) return
  report("I1", `a run published ${published[wrong]} ${wrong}, and the history has ${recorded[wrong]}`)
}
