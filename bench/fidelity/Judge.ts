/**
 * Compares the changes that a contender reported with the world. The same judge scores all contenders; it knows the world, not the
 * way it was read.
 *
 * Invariants
 * 1. The reports of a record are matched with its states, in order: each with the first equal state at or after the
 *    previous match that had started by the time of the report.
 *
 * Gotchas
 * - Only content counts: a state that differs from the previous one only in volatile timestamps or in order is the same.
 * - A live record without any content may be reported as empty or as deleted: both are correct.
 */
import { contentOf } from "../../test/simulation/oracle/Content.ts"
import type { JsonObject, RecordState, Row, Table } from "../../test/simulation/world/Table.ts"
import type { Outcome, ReportedChange } from "./Contenders.ts"
import { type GhostReason, ghostReasons, type LossReason, lossReasons } from "./LossAnalysis.ts"

/** A period during which a record did not change. */
interface State {
  readonly from: number
  /** Index of the period's first state in the history. */
  readonly first: number
  /** Null if the record did not exist yet. */
  readonly content: string | null
  readonly gone: boolean
  /** A report with this content is correct: the record is live, or its content shows that it is deleted or empty. */
  readonly plain: boolean
}

export interface Score {
  /** States after the start that lasted an interval. */
  states: number
  /** Of those: never reported. */
  lost: number
  /** The reasons, for a contender with an analysis. */
  readonly lossCounts: Record<LossReason, number>
  /** Records whose last reported state is wrong at the end. */
  wrong: number
  /** Of those: deleted but reported as live. */
  missedDeletes: number
  /** Of those: in an empty list. */
  missedDeletesInEmptyLists: number
  /** Reported as live with a state that the record did not have since the previous report. */
  ghosts: number
  /** The reasons, for a contender with an analysis. */
  readonly ghostCounts: Record<GhostReason, number>
  /** Reported as deleted although live ever since the previous report. */
  falseDeletes: number
  /** Reported as created again although never deleted since. */
  recreated: number
  /** Updates without a change. */
  emptyUpdates: number
  /** ms from the start of a state until its report. */
  readonly delays: Array<number>
  requests: number
}

const none = <K extends string>(kinds: ReadonlyArray<K>) =>
  Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<K, number>

export const emptyScore = (): Score => ({
  states: 0,
  lost: 0,
  lossCounts: none(lossReasons),
  wrong: 0,
  missedDeletes: 0,
  missedDeletesInEmptyLists: 0,
  ghosts: 0,
  ghostCounts: none(ghostReasons),
  falseDeletes: 0,
  recreated: 0,
  emptyUpdates: 0,
  delays: [],
  requests: 0
})

/** The state of a record before its first report. */
const nothingReported: ReportedChange = { at: -Infinity, kind: "deleted", record: null }

const isEmpty = ({ live, record }: RecordState): boolean =>
  !live && record["remote_deleted_at"] === null &&
  Object.entries(record).every(([name, value]) =>
    value === null || ["id", "remote_id", "changed_at"].includes(name) || name.startsWith("remote_")
  )

const statesOf = (row: Row): ReadonlyArray<State> => {
  const states: Array<State> = [{ from: -Infinity, first: 0, content: null, gone: true, plain: false }]
  for (const [first, shown] of row.history.entries()) {
    const content = contentOf(shown.record)
    const before = states.at(-1)!
    if (before.content === content && before.gone === !shown.live) continue
    const plain = shown.live || shown.record["remote_deleted_at"] !== null || isEmpty(shown)
    states.push({ from: shown.at, first, content, gone: !shown.live, plain })
  }
  return states
}

/** The record never had this state; each property has a real or the previously reported value. An old copy is not a mixture. */
const isMixed = ({ history }: Row, record: JsonObject, before: JsonObject): boolean => {
  const same = (from: JsonObject, name: string) =>
    contentOf({ [name]: record[name] ?? null }) === contentOf({ [name]: from[name] ?? null })
  const content = contentOf(record)
  return history.every((state) => contentOf(state.record) !== content) &&
    history.some((state) =>
      state.live &&
      Object.keys({ ...record, ...state.record }).every((name) => same(state.record, name) || same(before, name))
    )
}

const judgeRecord = (score: Score, table: Table, row: Row, { analysis, setting, start, ...outcome }: Outcome): void => {
  const reports = outcome.reported.get(row) ?? []
  const states = statesOf(row)
  const matches = (report: ReportedChange, state: State) =>
    report.record === null ? state.gone : state.plain && state.content === contentOf(report.record)
  /** Index of the latest matched state, and the states that were reported. */
  let latestMatch = 0
  let before: ReportedChange | null = null
  const reportedStates = new Set([0])
  for (const report of reports) {
    const at = states.findIndex((state, index) =>
      index >= latestMatch && state.from <= report.at && matches(report, state)
    )
    const goneSince = states.some(({ from, gone }, index) => gone && index >= latestMatch && from <= report.at)
    if (report.kind === "created" && before !== null && !goneSince) score.recreated++
    if (report.kind === "updated" && before?.record != null && contentOf(report.record!) === contentOf(before.record)) {
      score.emptyUpdates++
    }
    const last = before?.record
    before = report
    if (at < 0) {
      if (report.record === null) {
        score.falseDeletes++
        continue
      }
      score.ghosts++
      const mixed = last != null && isMixed(row, report.record, last)
      if (analysis !== null) score.ghostCounts[analysis.ghostOf(table, row, report.record, report.at, mixed)]++
      continue
    }
    latestMatch = at
    const { from } = states[at]!
    if (!reportedStates.has(at) && from >= start) score.delays.push(report.at - from)
    reportedStates.add(at)
  }
  states.forEach(({ first, from }, index) => {
    const next = states[index + 1]
    const until = next?.from ?? Infinity
    if (from < start || until - from < setting.interval) return
    score.states++
    if (reportedStates.has(index)) return
    // the state that was last reported before it ended counts as well
    const lastReported = reports.findLast(({ at }) => at <= until) ?? nothingReported
    if (matches(lastReported, states[index]!)) return
    score.lost++
    const shown = { first, end: next?.first ?? row.history.length }
    if (analysis !== null) score.lossCounts[analysis.lossOf(table, row, shown, from, until)]++
  })
  const last = states.at(-1)!
  const isCorrect = matches(before ?? nothingReported, last)
  if (isCorrect) return
  score.wrong++
  if (!last.gone || before?.record == null) return
  score.missedDeletes++
  if (table.rows.every((other) => !other.history.at(-1)!.live)) score.missedDeletesInEmptyLists++
}

/** Adds one world to a score. */
export const judge = (score: Score, outcome: Outcome): void => {
  score.requests += outcome.requests
  score.ghosts += outcome.unknownRecords
  for (const table of outcome.world.tables) {
    for (const row of table.byId.values()) judgeRecord(score, table, row, outcome)
  }
}
