/** The oracle's view of one stream: the published and the pending state of each record, and the rows that were served. */
import type { Hold, Pending } from "../../../src/store/Records.ts"
import type { FaultKind } from "../plan/Plan.ts"
import type { ServedRow } from "../world/Pages.ts"
import type { Json, JsonObject, Row, Table } from "../world/Table.ts"
import { contentOf } from "./Content.ts"
import type { Forgettings } from "./Forgettings.ts"
import { RunHistory } from "./RunHistory.ts"
import { Waves } from "./Waves.ts"

/** The published state of one record. */
export interface PublishedRecord {
  readonly version: number
  readonly after: JsonObject | null
  readonly afterText: string | null
  /** Index of the newest state that was published. */
  readonly state: number
  /** The record was empty when it was published first. */
  readonly createdEmpty: boolean
}

export const unpublished: PublishedRecord = { version: 0, after: null, afterText: null, state: -1, createdEmpty: false }

export interface CommittedPoll {
  readonly startedAt: number
  readonly from: number
}

export interface ObservedStream {
  readonly table: Table
  /** Those of all integrations. */
  readonly forgettings: Forgettings
  readonly records: Map<string, PublishedRecord>
  readonly pending: Map<string, Pending>
  readonly polls: Array<CommittedPoll>
  /** Holds that are neither approved nor canceled. */
  readonly holds: Map<number, Hold>
  readonly waves: Waves
  readonly history: RunHistory
  /** Server time (ms) of the backfill's first request whose response was committed: it set the watermark. */
  since: number | null
  /** Server time (ms) at which the backfill's last page was committed. */
  backfilledAt: number | null
  /** Server time (ms) at which the latest sweep ended. */
  sweptAt: number | null
  quarantined: number
  /** The kinds of fault that requests for the list had. */
  readonly faults: Set<FaultKind>
  /** The newest state of each record that was served as deleted. */
  readonly newestDeletedState: Map<string, number>
  /** The newest state of each record that was served as live, and the time. */
  readonly newestLiveState: Map<string, { readonly state: number; readonly at: number }>
  /** The states of each record that were served when they were outdated. */
  readonly outdatedStates: Map<string, Set<number>>
  /** Of each record, when each state was served last. */
  readonly servedAt: Map<string, Map<number, number>>
  rowsWithoutId: number
}

/** The part that is in the store, and goes back when a copy of the store replaces it. */
export type StoredState = Pick<
  ObservedStream,
  "records" | "pending" | "polls" | "holds" | "waves" | "history" | "since" | "backfilledAt"
>

export const nameOf = (table: Table): string => `${table.integration}/${table.model}`

/** `what`: the violation in words. */
export type ReportViolation = (invariant: string, what: string) => void
/** Reports at this place: a stream, or another part of the world. */
export type ReportAt = (place: string) => ReportViolation

export const newStream = (table: Table, forgettings: Forgettings): ObservedStream => ({
  table,
  forgettings,
  records: new Map(),
  pending: new Map(),
  polls: [],
  holds: new Map(),
  waves: new Waves(),
  history: new RunHistory(),
  since: null,
  backfilledAt: null,
  sweptAt: null,
  quarantined: 0,
  faults: new Set(),
  newestDeletedState: new Map(),
  newestLiveState: new Map(),
  outdatedStates: new Map(),
  servedAt: new Map(),
  rowsWithoutId: 0
})

export const copyOf = (
  { backfilledAt, history, holds, pending, polls, records, since, waves }: StoredState
): StoredState => ({
  since,
  backfilledAt,
  records: new Map(records),
  pending: new Map(pending),
  polls: [...polls],
  holds: new Map(holds),
  waves: waves.copy(),
  history: history.copy()
})

export const recordServedRows = (stream: ObservedStream, copies: ReadonlyArray<ServedRow>, now: number): void => {
  for (const { hasId, row, state } of copies) {
    if (!hasId) {
      stream.rowsWithoutId++
      continue
    }
    stream.servedAt.set(row.id, (stream.servedAt.get(row.id) ?? new Map()).set(state, now))
    if (row.history[state]!.live) stream.newestLiveState.set(row.id, { state, at: now })
    else stream.newestDeletedState.set(row.id, Math.max(state, stream.newestDeletedState.get(row.id) ?? -1))
    if (state < row.history.length - 1) {
      stream.outdatedStates.set(row.id, (stream.outdatedStates.get(row.id) ?? new Set()).add(state))
    }
  }
}

/**
 * Whether a state was served when it was outdated, and no timestamp shows that it is older than `than`: its `changed_at` is not
 * earlier, or one of the two has none (P3). If several states are equal, `than` is the first of them, and a later one counts
 * too, because the service may have seen that one.
 */
export const isUndetectablyOld = (stream: ObservedStream, row: Row, state: number, than: number): boolean => {
  const then = row.history[state]!.changedAt
  const [first, ...later] = row.history.slice(Math.max(0, than))
  const alike = [first!, ...later.filter(({ record }) => contentOf(record) === contentOf(first!.record))]
  const isDetectable = then !== null && alike.every(({ changedAt }) => changedAt !== null && then < changedAt)
  return !isDetectable && stream.outdatedStates.get(row.id)?.has(state) === true
}

type Path = ReadonlyArray<string>

/** The paths that scope holds mask now. */
const maskedIn = (stream: ObservedStream): ReadonlyArray<Path> =>
  [...stream.holds.values()].flatMap(({ kind, paths }) =>
    kind === "scope" ? paths.map((path) => path.split("/").slice(1)) : []
  )

const isShape = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The canonical text of a value. */
type Canonicalizer = (value: Json | undefined) => string

/** Whether a value equals the shown one, except for masked paths, which have the previous value. */
const isMixed = (
  [value, shown, before]: readonly [Json | undefined, Json | undefined, Json | undefined],
  masked: ReadonlyArray<Path>,
  canonical: Canonicalizer
): boolean => {
  if (canonical(value) === canonical(shown)) return true
  if (masked.some((path) => path.length === 0)) return canonical(value) === canonical(before)
  if (masked.length === 0 || !isShape(value) || !isShape(shown)) return false
  return Object.keys({ ...value, ...shown }).every((name) =>
    isMixed(
      [value[name], shown[name], isShape(before) ? before[name] : undefined],
      masked.flatMap(([first, ...rest]) => first === name ? [rest] : []),
      (inner) => canonical({ [name]: inner ?? null })
    )
  )
}

/**
 * The states that a record published as `after` may be in, oldest first. While a scope hold masks properties, they
 * may have the previously published values (C7).
 */
export const statesOf = (
  stream: ObservedStream,
  row: Row,
  before: JsonObject | null,
  after: JsonObject
): ReadonlyArray<number> => {
  const content = contentOf(after)
  const masked = before === null ? [] : maskedIn(stream)
  const canonical: Canonicalizer = (value) => contentOf(isShape(value) ? value : {})
  return row.history.flatMap(({ record }, state) =>
    formsOf(stream, record).some((form) =>
        contentOf(form) === content ||
        (masked.length > 0 && isMixed([after, form, before ?? undefined], masked, canonical))
      )
      ? [state]
      : []
  )
}

/** The forms in which a state may be published or pending: a candidate in it may be forgotten. */
export const formsOf = ({ forgettings, table }: ObservedStream, record: JsonObject): ReadonlyArray<JsonObject> =>
  forgettings.forms(table.integration, record)

/** Whether a state of a record may be published or pending with this content. */
export const isFormOf = (stream: ObservedStream, record: JsonObject, content: string): boolean =>
  formsOf(stream, record).some((form) => contentOf(form) === content)
