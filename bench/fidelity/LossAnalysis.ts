/**
 * Records the pages that one contender was served, the faults of its requests and its pending changes: enough to explain why a state
 * was never reported, and why a reported state was never true.
 *
 * Gotchas
 * - The first matching reason counts, in the order of `lossReasons`: a change behind a hold may also have been hidden by a fault.
 */
import { contentOf } from "../../test/simulation/oracle/Content.ts"
import type { CommittedTransaction } from "../../test/simulation/service/CommittedTransaction.ts"
import type { ServedPage } from "../../test/simulation/world/FaultyApi.ts"
import type { JsonObject, Row, Table } from "../../test/simulation/world/Table.ts"

export const lossReasons = [
  /** The state was read, and waited for an operator until another state replaced it. */
  "held",
  /** The state was read, and waited for the end of its run, a confirm or a refetch. */
  "pending",
  /** The state was never served, and meanwhile requests failed, or the stream was paused after a failure. */
  "hidden by a fault",
  /** Only a sweep could have found the state: it was not announced, or later than the overlap; no sweep ran in time. */
  "for a sweep",
  /** The state was over before a poll read the list to its end. */
  "between two polls",
  "unexplained"
] as const
export type LossReason = (typeof lossReasons)[number]

export const ghostReasons = [
  /** Correct except for properties that keep their previously reported values. */
  "mixed",
  /** The same for properties that a hold masks; the result equals an earlier state of the record. */
  "mixed into an older state",
  /** An older copy that the API served. */
  "older copy",
  "unexplained"
] as const
export type GhostReason = (typeof ghostReasons)[number]

/** A period, in ms, during which a record was pending. */
interface Wait {
  readonly from: number
  until: number
  readonly held: boolean
}

const without = (record: JsonObject, names: ReadonlySet<string>): string =>
  contentOf(Object.fromEntries(Object.entries(record).filter(([name]) => !names.has(name))))

export class LossAnalysis {
  readonly #served = new Map<Row, Map<number, number>>()
  /** States that were served when they were outdated. */
  readonly #outdated = new Map<Row, Array<number>>()
  readonly #waits = new Map<Row, Array<Wait>>()
  readonly #failures = new Map<Table, Array<number>>()
  /** Runs over a list, from the request for the first page to the response with the last one. */
  readonly #read = new Map<Table, Array<Omit<Wait, "held">>>()
  /** Periods, in ms, during which a stream was paused. */
  readonly #blocked = new Map<Table, Array<Wait>>()
  readonly #masked = new Map<Table, Set<string>>()

  pageServed({ copies, faults, request, requestedAt, table }: ServedPage, now: number): void {
    // A response for ids does not count as a run; a list whose cursor leads back is abandoned before its page counts.
    if (request.ids !== null || faults.includes("cycle")) return
    const run = this.#read.get(table)?.at(-1)
    if (request.cursor === null || run === undefined) push(this.#read, table, { from: requestedAt, until: now })
    else run.until = now
    for (const { hasId, row, state } of copies) {
      const served = this.#served.get(row) ?? new Map<number, number>()
      this.#served.set(row, served)
      if (hasId && !served.has(state)) served.set(state, now)
      if (hasId && state < row.history.length - 1) push(this.#outdated, row, state)
    }
  }

  /** Called when a request has a fault. */
  requestFailed(table: Table, now: number): void {
    push(this.#failures, table, now)
  }

  committed(table: Table, { after, before, holds, pending }: CommittedTransaction, now: number): void {
    const masked = holds.flatMap(({ kind, paths }) => kind === "scope" ? paths : [])
    for (const path of masked) this.#masked.set(table, (this.#masked.get(table) ?? new Set()).add(path.split("/")[1]!))
    for (const [id, waiting] of pending) {
      const row = table.byId.get(id)
      if (row === undefined) continue
      const last = this.#waits.get(row)?.at(-1)
      if (last !== undefined && last.until === Infinity) last.until = now
      if (waiting !== null) push(this.#waits, row, { from: now, until: Infinity, held: waiting.hold !== null })
    }
    const wasPaused = before.blocked !== null || before.failing !== null
    const isPaused = after.blocked !== null || after.failing !== null
    if (isPaused && !wasPaused) push(this.#blocked, table, { from: now, until: Infinity, held: false })
    if (wasPaused && !isPaused) this.#blocked.get(table)!.at(-1)!.until = now
  }

  /** Why the states from `first` to before `end`, which lasted `from` … `until`, were not reported. */
  lossOf(
    table: Table,
    row: Row,
    states: { readonly first: number; readonly end: number },
    from: number,
    until: number
  ) {
    const overlaps = (wait: Wait) => wait.from <= until && wait.until >= from
    const waits = (this.#waits.get(row) ?? []).filter(overlaps)
    if (waits.some(({ held }) => held)) return "held"
    const served = [...this.#served.get(row) ?? []].some(([state, at]) =>
      state >= states.first && state < states.end && at <= until
    )
    if (waits.length > 0) return "pending"
    const hasFailed = this.#failures.get(table)?.some((at) => at >= from && at <= until) === true
    if (!served && (hasFailed || (this.#blocked.get(table) ?? []).some(overlaps))) {
      return "hidden by a fault"
    }
    const announced = table.announced.some(({ id, stamp, visibleAt }) =>
      id === row.id && visibleAt === from && visibleAt - stamp < 60_000
    )
    if (!served && !announced) return "for a sweep"
    const read = this.#read.get(table)?.some((run) => run.from >= from && run.until <= until) === true
    if (!served && !read) return "between two polls"
    return "unexplained"
  }

  /** Why a record was reported at this time with a wrong state; `mixed`: correct except for previously reported properties. */
  ghostOf(table: Table, row: Row, record: JsonObject, at: number, mixed: boolean): GhostReason {
    if (mixed) return "mixed"
    const content = contentOf(record)
    const shown = row.history.filter((state) => state.at <= at)
    const older = shown.flatMap((state, index) => contentOf(state.record) === content ? [index] : [])
    const masked = this.#masked.get(table) ?? new Set<string>()
    const unmasked = without(record, masked)
    const newer = shown.slice((older.at(-1) ?? -1) + 1)
    if (masked.size > 0 && newer.some((state) => without(state.record, masked) === unmasked)) {
      return "mixed into an older state"
    }
    return older.some((state) => this.#outdated.get(row)?.includes(state)) ? "older copy" : "unexplained"
  }
}

const push = <K, A>(lists: Map<K, Array<A>>, key: K, value: A): void => {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}
