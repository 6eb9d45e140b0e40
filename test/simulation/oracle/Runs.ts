/**
 * What readings owe: each is complete, adds up, tells or keeps all that it was given (I1), and together the polls leave no
 * change between them (I6). Keeps what was handed out to readings that are under way.
 */
import type { Pending, RowCounts, StreamState } from "../../../src/store/State.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import type { Process } from "../service/Process.ts"
import type { ServedPage, ServedRow } from "../world/FaultyApi.ts"
import type { JsonObject, Row } from "../world/World.ts"
import { contentOf } from "./Content.ts"
import { isUndetectablyOld, nameOf, type ObservedStream, type ReportViolation } from "./ObservedStream.ts"

/** Rows handed out to one reading, page by page: a page asked for again replaces what it gave before. */
interface OpenRun {
  readonly startedAt: number
  readonly from: number | null
  readonly pages: Map<string, { readonly copies: ServedPage["copies"]; readonly at: number }>
  /** The page handed out last was the list's last. */
  ended: boolean
}

/** A `Date` that is wrong by less than 30 s cannot be told from a right one, and what a minute-old answer says is old. */
const slack = 60_000

export class Runs {
  readonly #setting: WorldSettings
  readonly #open = new Map<string, OpenRun>()
  /** By process and stream: what was asked for by id last. */
  readonly #asked = new Map<string, ServedPage>()

  constructor(setting: WorldSettings) {
    this.#setting = setting
  }

  pageServed({ number }: Process, delivery: ServedPage, now: number): void {
    const { copies, last, request, requestedAt, table } = delivery
    if (request.ids !== null) {
      this.#asked.set(`${number} ${nameOf(table)}`, delivery)
      return
    }
    const name = `${number} ${request.updatedAfter === null ? "sweep" : "poll"} ${nameOf(table)}`
    const known = request.cursor === null ? undefined : this.#open.get(name)
    const open = known ?? { startedAt: requestedAt, from: request.updatedAfter, pages: new Map(), ended: false }
    this.#open.set(name, open)
    open.pages.set(request.cursor ?? "", { copies, at: now })
    open.ended = last
  }

  /** Of the backfill, beginning and end are noted before its events are judged. */
  noteBackfill(process: Process, stream: ObservedStream, before: StreamState, after: StreamState, now: number): void {
    if (before.watermark === null && after.watermark !== null) {
      stream.since = this.#openOf(process, stream, "sweep")?.startedAt ?? null
    }
    if (before.backfilledAt === null && after.backfilledAt !== null) stream.backfilledAt ??= now
    // its last pass hid records: the backfill goes on with another one
    if (before.backfilledAt !== null && after.backfilledAt === null) stream.backfilledAt = null
  }

  /** The store is another one: of what was under way nothing is left. */
  forget(): void {
    this.#open.clear()
  }

  committed(
    process: Process,
    stream: ObservedStream,
    before: StreamState,
    after: StreamState,
    report: ReportViolation
  ): void {
    if (after.overlap < before.overlap) report("W3", "the margin went back")
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
      if (open !== undefined) checkRowsHandled(stream, open, "sweep", report)
      this.#open.delete(`${process.number} sweep ${nameOf(stream.table)}`)
    }
  }

  #openOf({ number }: Process, { table }: ObservedStream, kind: "poll" | "sweep"): OpenRun | undefined {
    return this.#open.get(`${number} ${kind} ${nameOf(table)}`)
  }

  /** N1: who was owed a re-read is owed it until an answer that has every control in it. */
  checkRefresh(
    process: Process,
    stream: ObservedStream,
    settled: ReadonlyArray<string>,
    report: ReportViolation
  ): void {
    const asked = this.#asked.get(`${process.number} ${nameOf(stream.table)}`)
    const answered = new Set(asked?.copies.map(({ row }) => row.id))
    const controls = asked?.request.ids?.filter((id) => !settled.includes(id)) ?? []
    const isSure = controls.every((id) => answered.has(id)) &&
      (controls.length > 0 || settled.every((id) => answered.has(id)))
    if (!isSure) report("N1", `a refresh of ${settled.join()} counts without its controls`)
  }

  /** Every announced change lies inside the first two complete polls after it became visible (W1, W3, W6, P1, I6). */
  checkPollWindows(stream: ObservedStream, report: ReportViolation): void {
    for (const { id, stamp, visibleAt } of stream.table.announced) {
      if (stream.since === null || visibleAt <= stream.since) continue
      // what is shown later than that is for the sweep (W3)
      if (visibleAt - stamp > this.#setting.overlapMin - slack) continue
      const after = stream.polls.filter((poll) => poll.startedAt >= visibleAt).slice(0, 2)
      const missed = after.find((poll) => poll.from > stamp)
      if (missed === undefined) continue
      const late = `${visibleAt - stamp} ms late, lies ${missed.from - stamp} ms before what a poll asked for`
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

/** I1: whatever a complete reading was given is published, or newer than what is pending or set aside. */
const checkRowsHandled = (stream: ObservedStream, open: OpenRun, kind: string, report: ReportViolation): void => {
  if (!open.ended) report("I1", `a ${kind} counts as complete and its list went on`)
  for (const { at, copies } of open.pages.values()) {
    for (const copy of copies) {
      if (!copy.hasId || isHandled(stream, copy) || isOvertaken(stream, copy, at)) continue
      report("I1", `a complete ${kind} was given ${copy.row.id} in state ${copy.state} and tells nothing of it`)
    }
  }
}

const isHandled = (stream: ObservedStream, { row, state }: ServedRow): boolean => {
  const pending = stream.pending.get(row.id)
  if (pending !== undefined) return isPending(stream, pending, { row, state })
  const shown = row.history[state]!
  const published = stream.records.get(row.id)
  if (!shown.live && published === undefined) return !isUnseen(stream, row, state) || wasEmptied(stream, row, state)
  if (!shown.live && published?.after === null) return true
  if (published !== undefined && published.state >= state) return true
  if (published?.after != null && contentOf(published.after) === contentOf(shown.record)) return true
  // An old live copy, and the re-read it caused says that the record is gone.
  return (stream.newestDeletedState.get(row.id) ?? -1) > state && (published?.after ?? null) === null
}

/** A poll between the pages of the sweep has met it since, as it is published: newer, or older in disguise (P3). */
const isOvertaken = (stream: ObservedStream, { row, state }: ServedRow, at: number): boolean => {
  const after = stream.records.get(row.id)?.after ?? null
  return after !== null &&
    [...stream.servedAt.get(row.id) ?? []].some(([other, servedAt]) =>
      other !== state && servedAt >= at && contentOf(row.history[other]!.record) === contentOf(after) &&
      (other > state || isUndetectablyOld(stream, row, other, state))
    )
}

/** It was shown deleted and empty before this older copy of it: what was in it is not told any more (D11). */
const wasEmptied = ({ newestDeletedState }: ObservedStream, { id, history }: Row, state: number): boolean => {
  const later = newestDeletedState.get(id) ?? -1
  return later > state && isEmpty(history[later]!.record)
}

const isEmpty = (record: JsonObject): boolean =>
  Object.entries(record).every(([name, value]) =>
    value === null || name === "id" || name === "changed_at" || name.startsWith("remote_")
  )

/** A question is open about it, or what waits is no older than what was given. */
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
    contentOf(record) === waiting && (index >= state || isUndetectablyOld(stream, row, index, state))
  )
}

/**
 * Came and went after the backfill, and what it was is still shown: to be told as both (D8). One that was deleted before,
 * and lived in between while nobody looked, may be known as deleted all the time.
 */
const isUnseen = ({ backfilledAt }: ObservedStream, { history }: Row, state: number): boolean => {
  if (history.slice(0, state).some(({ live }) => !live)) return false
  const { record } = history[state]!
  const deletedAt = record["remote_deleted_at"]
  return typeof deletedAt === "string" && backfilledAt !== null && Date.parse(deletedAt) > backfilledAt + slack &&
    !isEmpty(record)
}
