/**
 * Rules for runs: each complete run reads its list to the end, its counts add up, and it publishes or keeps every row (I1); together
 * the polls leave no gap (I6). Records the rows served to runs in progress.
 */
import type { Pending } from "../../../src/store/Records.ts"
import type { RowCounts } from "../../../src/store/Run.ts"
import type { StreamState } from "../../../src/store/State.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import type { RunningProcess } from "../service/ProcessObserver.ts"
import type { ServedPage } from "../world/FaultyApi.ts"
import type { ServedRow } from "../world/Pages.ts"
import type { JsonObject, RecordState, Row } from "../world/Table.ts"
import { contentOf } from "./Content.ts"
import { isFormOf, isUndetectablyOld, nameOf, type ObservedStream, type ReportViolation } from "./ObservedStream.ts"
import type { Served } from "./RunHistory.ts"

/**
 * Rows served to one run, page by page: a page that is requested again replaces its previous rows. If it is the last one now, pages that
 * were read ahead of it before are not read again.
 */
interface OpenRun {
  readonly startedAt: number
  readonly from: number | null
  readonly pages: Map<string, { readonly copies: ServedPage["copies"]; readonly at: number }>
  /** The page served last was the last page of the list. */
  ended: boolean
}

/** A `Date` that is wrong by less than 30 s cannot be detected, and the content of a response may be up to a minute old. */
const clockTolerance = 60_000

/** How many polls may end while a sweep is due and reads nothing: commits that fail may cost the sweep its turn. */
const mostPollsInARow = 2
/** By how much the service's clock may jump in a world, in ms. */
const longestJump = 480_000

export class Runs {
  readonly #setting: WorldSettings
  /** Later polls and sweeps are requested by an operator. */
  readonly #quietAt: number
  /** By reader and stream: how many polls have ended since the sweep read anything, all of them while it was due. */
  readonly #pollsInARow = new Map<string, number>()
  readonly #open = new Map<string, OpenRun>()
  /** By reader and stream: the latest response to a request for ids, with all its pages so far. */
  readonly #idResponses = new Map<string, ServedPage>()

  constructor(setting: WorldSettings, start: number) {
    this.#setting = setting
    this.#quietAt = start + setting.duration
  }

  pageServed(process: RunningProcess, delivery: ServedPage, now: number): void {
    const { copies, last, request, requestedAt, table } = delivery
    if (request.ids !== null) {
      const name = `${process.readerOf(table)} ${nameOf(table)}`
      const earlier = request.cursor === null ? [] : this.#idResponses.get(name)?.copies ?? []
      this.#idResponses.set(name, { ...delivery, copies: [...earlier, ...copies] })
      return
    }
    const name = `${process.readerOf(table)} ${request.updatedAfter === null ? "sweep" : "poll"} ${nameOf(table)}`
    const known = request.cursor === null ? undefined : this.#open.get(name)
    const open = known ?? { startedAt: requestedAt, from: request.updatedAfter, pages: new Map(), ended: false }
    this.#open.set(name, open)
    const cursor = request.cursor ?? ""
    if (last && open.pages.has(cursor)) {
      const cursors = [...open.pages.keys()]
      for (const later of cursors.slice(cursors.indexOf(cursor) + 1)) open.pages.delete(later)
    }
    open.pages.set(cursor, { copies, at: now })
    open.ended = last
  }

  /** Notes the start and the end of the backfill before its events are checked. */
  noteBackfill(
    process: RunningProcess,
    stream: ObservedStream,
    before: StreamState,
    after: StreamState,
    now: number
  ): void {
    if (before.watermark === null && after.watermark !== null) {
      stream.since = this.#openOf(process, stream, "sweep")?.startedAt ?? null
    }
    if (before.backfilledAt === null && after.backfilledAt !== null) stream.backfilledAt ??= now
    // the last pass may have hidden records: the backfill continues with another pass
    if (before.backfilledAt !== null && after.backfilledAt === null) stream.backfilledAt = null
  }

  /** Called when the store is replaced: no run is in progress now. */
  forget(): void {
    this.#open.clear()
  }

  committed(
    process: RunningProcess,
    stream: ObservedStream,
    written: CommittedTransaction,
    now: number,
    report: ReportViolation
  ): void {
    const { after, before } = written
    if (now < this.#quietAt) this.#checkTurns(process, stream, written, now, report)
    stream.history.committed(written, (kind) => this.#servedTo(process, stream, kind), report)
    if (after.overlap < before.overlap) report("W3", "the overlap shrank")
    if (after.watermark !== before.watermark) checkWatermark(before, after, report)
    if (after.lastPoll !== null && after.lastPoll.id !== before.lastPoll?.id) {
      checkBalance(after.lastPoll.rowCounts, report)
      const open = this.#openOf(process, stream, "poll")
      if (open !== undefined && after.lastPoll.updatedAfter !== null) {
        stream.polls.push({ startedAt: open.startedAt, from: after.lastPoll.updatedAfter })
        checkRowsHandled(stream, open, "poll", report)
      }
    }
    if (after.lastSweep !== null && after.lastSweep.id !== before.lastSweep?.id) {
      checkBalance(after.lastSweep.rowCounts, report)
      const open = this.#openOf(process, stream, "sweep")
      stream.sweptAt = now
      if (open !== undefined) checkRowsHandled(stream, open, "sweep", report)
      this.#open.delete(`${process.readerOf(stream.table)} sweep ${nameOf(stream.table)}`)
    }
  }

  /** A sweep that is due reads something between polls, however long they take. A failure gives another step its turn. */
  #checkTurns(
    process: RunningProcess,
    { sweptAt, table }: ObservedStream,
    { after, before }: CommittedTransaction,
    now: number,
    report: ReportViolation
  ): void {
    const name = `${process.readerOf(table)} ${nameOf(table)}`
    const isDue = after.sweep !== null || after.backfilledAt === null || after.lastSweep?.mustRepeat === true ||
      (sweptAt !== null && now - sweptAt > 1.1 * this.#setting.sweepInterval + longestJump)
    const progress = ({ lastSweep, sweep }: StreamState) =>
      `${lastSweep?.id} ${sweep?.id} ${sweep?.phase} ${sweep?.pages} ${sweep?.confirmedTo}`
    const isFailure = after.failing?.count !== before.failing?.count || after.blocked?.since !== before.blocked?.since
    if (!isDue || isFailure || progress(after) !== progress(before)) this.#pollsInARow.delete(name)
    else if (after.lastPoll?.id !== before.lastPoll?.id) {
      const polls = (this.#pollsInARow.get(name) ?? 0) + 1
      this.#pollsInARow.set(name, polls)
      if (polls > mostPollsInARow) report("R5", `${polls} polls ended while a sweep was due and read nothing`)
    }
  }

  /** A forgotten record does not count as read. */
  #servedTo(process: RunningProcess, stream: ObservedStream, kind: "poll" | "sweep"): Served {
    const open = this.#openOf(process, stream, kind)
    if (open === undefined || !open.pages.has("") || stream.forgettings.isUsed) return null
    const rows = [...open.pages.values()].reduce((sum, { copies }) => sum + copies.length, 0)
    return { rows, pages: open.pages.size }
  }

  #openOf(process: RunningProcess, { table }: ObservedStream, kind: "poll" | "sweep"): OpenRun | undefined {
    return this.#open.get(`${process.readerOf(table)} ${kind} ${nameOf(table)}`)
  }

  /** N1: a record stays stale until a response that contains every control. */
  checkRefresh(
    process: RunningProcess,
    stream: ObservedStream,
    refreshed: ReadonlyArray<string>,
    report: ReportViolation
  ): void {
    const response = this.#idResponses.get(`${process.readerOf(stream.table)} ${nameOf(stream.table)}`)
    const answered = new Set(response?.copies.map(({ row }) => row.id))
    const controls = response?.request.ids?.filter((id) => !refreshed.includes(id)) ?? []
    const isSure = controls.every((id) => answered.has(id)) &&
      (controls.length > 0 || refreshed.every((id) => answered.has(id)))
    if (!isSure) report("N1", `a refresh of ${refreshed.join()} was accepted without its controls`)
  }

  /** Every announced change lies inside the first two complete polls after it became visible (W1, W3, W6, P1, I6). */
  checkPollWindows(stream: ObservedStream, report: ReportViolation): void {
    for (const { id, stamp, visibleAt } of stream.table.announced) {
      if (stream.since === null || visibleAt <= stream.since) continue
      // only a sweep must find a change that is shown later than that (W3)
      if (visibleAt - stamp > this.#setting.minOverlap - clockTolerance) continue
      const after = stream.polls.filter((poll) => poll.startedAt >= visibleAt).slice(0, 2)
      const missed = after.find((poll) => poll.from > stamp)
      if (missed === undefined) continue
      const late = `${visibleAt - stamp} ms late, is ${
        missed.from - stamp
      } ms older than the \`updated_after\` of a poll`
      return report("I6", `a change of ${id}, ${late}`)
    }
  }
}

const checkWatermark = (before: StreamState, after: StreamState, report: ReportViolation): void => {
  if (before.watermark === null) return
  if (after.watermark === null || after.watermark < before.watermark) report("I6", "the watermark went back")
  if (after.lastPoll?.id === before.lastPoll?.id) report("I6", "the watermark moved without a poll")
}

const checkBalance = ({ read, ...rows }: RowCounts, report: ReportViolation): void => {
  const sum = Object.values(rows).reduce((sum, amount) => sum + amount, 0)
  if (sum !== read) report("I1", `${read} rows read, ${sum} accounted for`)
}

/** I1: every row that a complete run read is published, or pending with content that is not older. */
const checkRowsHandled = (stream: ObservedStream, open: OpenRun, kind: string, report: ReportViolation): void => {
  if (!open.ended) report("I1", `a ${kind} counts as complete, but its list had more pages`)
  for (const { at, copies } of open.pages.values()) {
    for (const copy of copies) {
      if (!copy.hasId || isHandled(stream, copy) || isOvertaken(stream, copy, at)) continue
      if (wasForgotten(stream, copy.row)) continue
      report(
        "I1",
        `a complete ${kind} read ${copy.row.id} in state ${copy.state}, which is neither published nor pending`
      )
    }
  }
}

/** No run stores a forgotten record. If it was allowed since, the next sweep does: its early pages may have been read before. */
const wasForgotten = ({ forgettings, table: { integration, model } }: ObservedStream, { id }: Row): boolean =>
  forgettings.stateOf({ integration, model, id }) !== undefined

const isHandled = (stream: ObservedStream, { row, state }: ServedRow): boolean => {
  const pending = stream.pending.get(row.id)
  if (pending !== undefined) return isPending(stream, pending, { row, state })
  const shown = row.history[state]!
  const published = stream.records.get(row.id)
  if (!shown.live && published === undefined) return !isUnseen(stream, row, state) || wasEmptied(stream, row, state)
  if (!shown.live && published?.after === null) return true
  if (published !== undefined && published.state >= state) return true
  if (published?.after != null && isFormOf(stream, shown.record, contentOf(published.after))) return true
  // An old live copy, and the re-read that it caused shows the record as deleted.
  return (stream.newestDeletedState.get(row.id) ?? -1) > state && (published?.after ?? null) === null
}

/** A poll between the pages of the sweep has read the record since, in the published state: newer, or undetectably old (P3). */
const isOvertaken = (stream: ObservedStream, { row, state }: ServedRow, at: number): boolean => {
  const published = stream.records.get(row.id)
  if (published === undefined) return false
  const isPublished = ({ live, record }: RecordState): boolean =>
    published.after === null ? !live : isFormOf(stream, record, contentOf(published.after))
  return [...stream.servedAt.get(row.id) ?? []].some(([other, servedAt]) =>
    other !== state && servedAt >= at && isPublished(row.history[other]!) &&
    (other > state || isUndetectablyOld(stream, row, other, state))
  )
}

/** The record was shown deleted and empty before this older copy: its content is no longer published (D11). */
const wasEmptied = ({ newestDeletedState }: ObservedStream, { id, history }: Row, state: number): boolean => {
  const later = newestDeletedState.get(id) ?? -1
  return later > state && isEmpty(history[later]!.record)
}

const isEmpty = (record: JsonObject): boolean =>
  Object.entries(record).every(([name, value]) =>
    value === null || name === "id" || name === "changed_at" || name.startsWith("remote_")
  )

/** The record is disputed or absent, or its pending content is not older than the served row. */
const isPending = (
  stream: ObservedStream,
  pending: Pending,
  { row, state }: Pick<ServedRow, "row" | "state">
): boolean => {
  const { content, deleted, status } = pending
  if (content === null || status === "disputed" || status === "absent") return true
  if (deleted && !row.history[state]!.live) return true
  const waiting = contentOf(JSON.parse(content))
  return row.history.some(({ record }, index) =>
    isFormOf(stream, record, waiting) && (index >= state || isUndetectablyOld(stream, row, index, state))
  )
}

/**
 * The record came and went after the backfill, and its content is still shown: both events must be published (D8). If it was
 * deleted before and restored between two runs, the service may know it as deleted all the time.
 */
const isUnseen = ({ backfilledAt }: ObservedStream, { history }: Row, state: number): boolean => {
  if (history.slice(0, state).some(({ live }) => !live)) return false
  const { record } = history[state]!
  const deletedAt = record["remote_deleted_at"]
  return typeof deletedAt === "string" && backfilledAt !== null &&
    Date.parse(deletedAt) > backfilledAt + clockTolerance &&
    !isEmpty(record)
}
