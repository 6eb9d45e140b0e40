/**
 * Holds what somebody told against what was true: one judge for all, who knows the world and nothing of how it was read.
 *
 * Invariants
 * 1. What was told of a record is matched, in order, with its states: each with the first that fits at or after the one
 *    before, and that had begun by then.
 *
 * Gotchas
 * - Only content counts: a state that differs from the one before in volatile timestamps, or in order, is the same.
 * - A live record with nothing left in it may be told as empty or as gone: both are right.
 */
import { contentOf } from "../../test/simulation/oracle/Content.ts"
import type { JsonObject, RecordState, Row, Table } from "../../test/simulation/world/World.ts"
import type { Outcome, ReportedChange } from "./Contenders.ts"
import { type GhostReason, ghostReasons, type LossReason, lossReasons } from "./LossAnalysis.ts"

/** A time during which a record was the same. */
interface State {
  readonly from: number
  /** Index of the first of what was shown. */
  readonly first: number
  /** null: there was no record yet. */
  readonly content: string | null
  readonly gone: boolean
  /** Told with its content it is told rightly: it is there, or what it shows says that it is deleted, or nothing. */
  readonly plain: boolean
}

export interface Score {
  /** States there were, after the beginning, that lasted an interval. */
  states: number
  /** Of those: never told. */
  lost: number
  /** How that came, of who keeps a analysis. */
  readonly lossCounts: Record<LossReason, number>
  /** Records that are not, in the end, as they were told. */
  wrong: number
  /** Of those: gone and told as there. */
  missedDeletes: number
  /** Of those: in a list in which nothing is left. */
  missedDeletesInEmptyLists: number
  /** Told as there, and not true then nor since what was told before. */
  ghosts: number
  /** How they came, of who keeps a analysis. */
  readonly ghostCounts: Record<GhostReason, number>
  /** Told as deleted, and there ever since what was told before. */
  falseDeletes: number
  /** Told as created once more, though never gone since. */
  recreated: number
  /** Updates in which nothing changed. */
  emptyUpdates: number
  /** ms from the beginning of a state until it was told. */
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

/** What stands for a record before anything was told of it. */
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

/** It was never so, but for what is left as it was told before. An old copy is no mixture. */
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
  const told = outcome.reported.get(row) ?? []
  const states = statesOf(row)
  const tells = (said: ReportedChange, state: State) =>
    said.record === null ? state.gone : state.plain && state.content === contentOf(said.record)
  /** What has been reached, and which states were told. */
  let reached = 0
  let before: ReportedChange | null = null
  const reportedStates = new Set([0])
  for (const said of told) {
    const at = states.findIndex((state, index) => index >= reached && state.from <= said.at && tells(said, state))
    const goneSince = states.some(({ from, gone }, index) => gone && index >= reached && from <= said.at)
    if (said.kind === "created" && before !== null && !goneSince) score.recreated++
    if (said.kind === "updated" && before?.record != null && contentOf(said.record!) === contentOf(before.record)) {
      score.emptyUpdates++
    }
    const last = before?.record
    before = said
    if (at < 0) {
      if (said.record === null) {
        score.falseDeletes++
        continue
      }
      score.ghosts++
      const mixed = last != null && isMixed(row, said.record, last)
      if (analysis !== null) score.ghostCounts[analysis.ghostOf(table, row, said.record, said.at, mixed)]++
      continue
    }
    reached = at
    const { from } = states[at]!
    if (!reportedStates.has(at) && from >= start) score.delays.push(said.at - from)
    reportedStates.add(at)
  }
  states.forEach(({ first, from }, index) => {
    const next = states[index + 1]
    const until = next?.from ?? Infinity
    if (from < start || until - from < setting.interval) return
    score.states++
    if (reportedStates.has(index)) return
    // what stood there when it ended was as good
    const lastReported = told.findLast(({ at }) => at <= until) ?? nothingReported
    if (tells(lastReported, states[index]!)) return
    score.lost++
    const shown = { first, end: next?.first ?? row.history.length }
    if (analysis !== null) score.lossCounts[analysis.lossOf(table, row, shown, from, until)]++
  })
  const last = states.at(-1)!
  const asTold = tells(before ?? nothingReported, last)
  if (asTold) return
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
