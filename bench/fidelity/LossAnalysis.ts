/**
 * What one contender was handed, what met its requests and what it kept back: enough to say of a state that was never told,
 * and of what was told and never so, how that came.
 *
 * Gotchas
 * - The first reason that fits counts, in the order of `lossReasons`: what waits behind a hold may have met a fault as well.
 */
import { contentOf } from "../../test/simulation/oracle/Content.ts"
import type { CommittedTransaction } from "../../test/simulation/service/Process.ts"
import type { ServedPage } from "../../test/simulation/world/FaultyApi.ts"
import type { JsonObject, Row, Table } from "../../test/simulation/world/World.ts"

export const lossReasons = [
  /** It was seen, and waited for somebody to decide until another state took its place. */
  "held",
  /** It was seen, and waited for the end of its reading, a confirm or a re-read. */
  "pending",
  /** It was never handed out, and meanwhile the API was asked and failed, or was left alone because it had. */
  "hidden by a fault",
  /** Nothing but a sweep could have shown it: not announced, or later than the margin; none came by. */
  "for a sweep",
  /** It was over before a poll came by and had read the list to its end. */
  "between two polls",
  "unexplained"
] as const
export type LossReason = (typeof lossReasons)[number]

export const ghostReasons = [
  /** True but for properties left as they were told before. */
  "mixed",
  /** The same, by the properties that a hold masks; what comes out is what the record was once. */
  "mixed into an older state",
  /** An older copy that the API handed out. */
  "older copy",
  "unexplained"
] as const
export type GhostReason = (typeof ghostReasons)[number]

/** A time, ms, during which a record was pending. */
interface Wait {
  readonly from: number
  until: number
  readonly held: boolean
}

const without = (record: JsonObject, names: ReadonlySet<string>): string =>
  contentOf(Object.fromEntries(Object.entries(record).filter(([name]) => !names.has(name))))

export class LossAnalysis {
  readonly #handed = new Map<Row, Map<number, number>>()
  /** States that were handed out when they were over. */
  readonly #stale = new Map<Row, Array<number>>()
  readonly #waits = new Map<Row, Array<Wait>>()
  readonly #troubled = new Map<Table, Array<number>>()
  /** Readings of lists, from when the first page was asked for until the last one was answered. */
  readonly #read = new Map<Table, Array<Omit<Wait, "held">>>()
  /** Since when a stream is left alone, ms. */
  readonly #blocked = new Map<Table, Array<Wait>>()
  readonly #masked = new Map<Table, Set<string>>()

  pageServed({ copies, faults, request, requestedAt, table }: ServedPage, now: number): void {
    // who is asked for by id vouches for others; a list that leads in a circle is given up before its page counts
    if (request.ids !== null || faults.includes("cycle")) return
    const reading = this.#read.get(table)?.at(-1)
    if (request.cursor === null || reading === undefined) push(this.#read, table, { from: requestedAt, until: now })
    else reading.until = now
    for (const { hasId, row, state } of copies) {
      const handed = this.#handed.get(row) ?? new Map<number, number>()
      this.#handed.set(row, handed)
      if (hasId && !handed.has(state)) handed.set(state, now)
      if (hasId && state < row.history.length - 1) push(this.#stale, row, state)
    }
  }

  /** A request met a fault. */
  requestFailed(table: Table, now: number): void {
    push(this.#troubled, table, now)
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
    const was = before.blocked !== null || before.failing !== null
    const is = after.blocked !== null || after.failing !== null
    if (is && !was) push(this.#blocked, table, { from: now, until: Infinity, held: false })
    if (was && !is) this.#blocked.get(table)!.at(-1)!.until = now
  }

  /** Why nothing was told of the states `first` to before `end`, which lasted `from` … `until`. */
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
    const handed = [...this.#handed.get(row) ?? []].some(([state, at]) =>
      state >= states.first && state < states.end && at <= until
    )
    if (waits.length > 0) return "pending"
    const troubled = this.#troubled.get(table)?.some((at) => at >= from && at <= until) === true
    if (!handed && (troubled || (this.#blocked.get(table) ?? []).some(overlaps))) {
      return "hidden by a fault"
    }
    const announced = table.announced.some(({ id, stamp, visibleAt }) =>
      id === row.id && visibleAt === from && visibleAt - stamp < 60_000
    )
    if (!handed && !announced) return "for a sweep"
    const read = this.#read.get(table)?.some((reading) => reading.from >= from && reading.until <= until) === true
    if (!handed && !read) return "between two polls"
    return "unexplained"
  }

  /** How a record came to be told, at this time, as it was not; `mixed`: it was so but for what was told before. */
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
    return older.some((state) => this.#stale.get(row)?.includes(state)) ? "older copy" : "unexplained"
  }
}

const push = <K, A>(lists: Map<K, Array<A>>, key: K, value: A): void => {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}
