/**
 * Checks the completeness that a stream claims: every record that existed at `complete_to`, and still exists, is published or
 * pending (I1, P9); and the claim never moves back (W15).
 *
 * Gotchas
 * - If a fault of the API hides a record from the page it belongs to, the service has not missed it.
 * - A record that two uninterrupted passes of a backfill skipped may be missing until the next sweep, as docs/integrations.md says.
 *   The same holds for a record that moved past the cursor in one of two ways: another record left its place in the list without any
 *   visible sign, or a fault of the API hid the record itself while it moved.
 * - In a list that is never polled, this holds for every record.
 * - The process that ends a pass may differ from the one that read its last page.
 */
import { completeTo } from "../../../src/domain/Watermark.ts"
import type { StreamState } from "../../../src/store/State.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import type { RunningProcess } from "../service/ProcessObserver.ts"
import { isSweptOnly } from "../world/DefinedModels.ts"
import type { ServedPage } from "../world/FaultyApi.ts"
import type { Row } from "../world/Table.ts"
import { nameOf, type ObservedStream, type ReportViolation } from "./ObservedStream.ts"

/** One pass over the whole list. Server time (ms). */
interface Pass {
  readonly startedAt: number
  endedAt: number
  /** Another process read the first pages. */
  readonly resumed: boolean
  /** A fault removed records from one of its pages. */
  cut: boolean
}

/** The largest error of a `Date` that the service accepts. */
const clockTolerance = 60_000
const requiredUninterruptedPasses = 2
const maxPassesUnlessRestarted = 4

export class CompletenessClaims {
  readonly #setting: WorldSettings
  /** By reader and stream: the pass in progress. */
  readonly #open = new Map<string, Pass>()
  /** By stream: the pass whose page was served last. */
  readonly #latest = new Map<string, Pass>()
  /** By stream: passes that ended since the backfill started. */
  readonly #ended = new Map<string, Array<Pass>>()
  /** By stream: ids of records that a fault removed from a page. */
  readonly #hidden = new Map<string, Set<string>>()

  constructor(setting: WorldSettings) {
    this.#setting = setting
  }

  pageServed(process: RunningProcess, { missingRows, request, requestedAt, table }: ServedPage, now: number): void {
    const known = this.#hidden.get(nameOf(table)) ?? new Set()
    this.#hidden.set(nameOf(table), known)
    for (const { id } of missingRows) known.add(id)
    if (request.ids !== null || request.updatedAfter !== null) return
    const key = `${process.readerOf(table)} ${nameOf(table)}`
    const open = request.cursor === null ? undefined : this.#open.get(key)
    const pass = open ?? { startedAt: requestedAt, endedAt: now, resumed: request.cursor !== null, cut: false }
    pass.endedAt = now
    pass.cut ||= missingRows.length > 0
    this.#open.set(key, pass)
    this.#latest.set(nameOf(table), pass)
  }

  /** Called when the store is replaced. */
  forget(): void {
    this.#open.clear()
    this.#latest.clear()
  }

  committed(
    process: RunningProcess,
    stream: ObservedStream,
    before: StreamState,
    after: StreamState,
    report: ReportViolation
  ): void {
    const name = nameOf(stream.table)
    const to = completeTo(after)
    const earlier = before.generation === after.generation ? completeTo(before) : null
    if (to !== null && earlier !== null && to < earlier) report("W15", `complete_to moved back by ${earlier - to} ms`)
    const pass = this.#open.get(`${process.readerOf(stream.table)} ${name}`) ?? this.#latest.get(name)
    const ended = this.#ended.get(name) ?? []
    this.#ended.set(name, ended)
    if (to !== null && to !== earlier) {
      const passes = pass === undefined ? ended : [...ended.filter((other) => other !== pass), pass]
      this.#check(stream, to, passes, report)
    }
    if (after.lastSweep?.id !== before.lastSweep?.id && pass !== undefined && !ended.includes(pass)) {
      ended.push(pass)
    }
  }

  #check(stream: ObservedStream, to: number, passes: ReadonlyArray<Pass>, report: ReportViolation): void {
    const { integration, model } = stream.table
    for (const row of stream.table.byId.values()) {
      // a record that is allowed again comes back with its next change, or with the next sweep
      if (stream.forgettings.stateOf({ integration, model, id: row.id }) !== undefined) continue
      const since = presentSince(row)
      const existed = since !== null && (isInitial(stream, since) || since <= to - clockTolerance)
      if (!existed || stream.pending.has(row.id) || (stream.records.get(row.id)?.after ?? null) !== null) continue
      if (this.#hidden.get(nameOf(stream.table))?.has(row.id) === true) continue
      if (isInitial(stream, since) ? this.#mayBeSkipped(stream, passes) : this.#isLate(stream, row, since)) {
        continue
      }
      if (isSweptOnly(this.#setting, model) && mayBeSkippedTwice(stream, passes)) continue
      report("I1", `${row.id} existed at complete_to and is neither published nor pending`)
    }
  }

  #mayBeSkipped({ table }: ObservedStream, passes: ReadonlyArray<Pass>): boolean {
    const uninterrupted = passes.filter(({ resumed }) => !resumed)
    const last = passes.at(-1)
    if (last === undefined || last.resumed) return false
    if (uninterrupted.length >= requiredUninterruptedPasses || passes.length >= maxPassesUnlessRestarted) return true
    return table.moves.some(({ at, isAnnounced }) =>
      at >= last.startedAt && at <= last.endedAt && (!isAnnounced || last.cut)
    )
  }

  /** The record became visible later than polls look back (W3). */
  #isLate({ table }: ObservedStream, { id }: Row, since: number): boolean {
    return table.announced.some((change) =>
      change.id === id && change.visibleAt >= since &&
      change.visibleAt - change.stamp > this.#setting.minOverlap - clockTolerance
    )
  }
}

/** No poll finds a record that both of the latest sweeps skipped, because others left their places in the list. */
const mayBeSkippedTwice = ({ table }: ObservedStream, passes: ReadonlyArray<Pass>): boolean => {
  const latest = passes.slice(-2)
  return latest.length === 2 &&
    latest.every(({ endedAt, startedAt }) => table.moves.some(({ at }) => at >= startedAt && at <= endedAt))
}

/** Server time (ms); null if the record does not exist now. */
const presentSince = ({ history }: Row): number | null => {
  const gone = history.findLastIndex(({ live }) => !live)
  return history[gone + 1]?.at ?? null
}

/** The record was in the list before the backfill started, perhaps because it was restored: polls need not show it. */
const isInitial = ({ since }: ObservedStream, presentSince: number): boolean => since !== null && presentSince < since
