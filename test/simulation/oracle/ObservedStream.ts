/**
 * What the oracle knows of one stream: what is published and pending of each record, what was handed out of it, and who
 * was asked. Hides how contents are recognised as states of the world.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { Hold, Pending } from "../../../src/store/State.ts"
import type { ServedRow } from "../world/FaultyApi.ts"
import type { Json, JsonObject, Row, Table } from "../world/World.ts"
import { contentOf } from "./Content.ts"
import { Waves } from "./Waves.ts"

/** What is published of one record, and which of its states that was. */
export interface PublishedRecord {
  readonly version: number
  readonly after: JsonObject | null
  readonly afterText: string | null
  /** Newest state that the published sequence has reached. */
  readonly state: number
  /** Its life began with nothing in it. */
  readonly createdEmpty: boolean
}

export const unpublished: PublishedRecord = { version: 0, after: null, afterText: null, state: -1, createdEmpty: false }

export interface CommittedPoll {
  readonly startedAt: number
  readonly from: number
}

export interface ObservedStream {
  readonly table: Table
  readonly records: Map<string, PublishedRecord>
  readonly pending: Map<string, Pending>
  readonly polls: Array<CommittedPoll>
  /** Holds that are neither approved nor cancelled. */
  readonly holds: Map<number, Hold>
  readonly waves: Waves
  /** First request of the backfill, of which the first answer was committed: it set the watermark. */
  since: number | null
  /** Server ms at which the backfill was committed to its last page. */
  backfilledAt: number | null
  quarantined: number
  /** Newest state handed out as deleted; as live, and when; states that were handed out when they were over. */
  readonly newestDeletedState: Map<string, number>
  readonly newestLiveState: Map<string, { readonly state: number; readonly at: number }>
  readonly outdatedStates: Map<string, Set<number>>
  /** Of each record, when its states were handed out last. */
  readonly servedAt: Map<string, Map<number, number>>
  rowsWithoutId: number
}

/** What of it is in the store, and goes back with a copy of it. */
export type StoredState = Pick<
  ObservedStream,
  "records" | "pending" | "polls" | "holds" | "waves" | "since" | "backfilledAt"
>

export const nameOf = (table: Table): string => `${table.integration}/${table.model}`

/** `what` it does that it must not, in words. */
export type ReportViolation = (invariant: string, what: string) => void

export const newStream = (table: Table): ObservedStream => ({
  table,
  records: new Map(),
  pending: new Map(),
  polls: [],
  holds: new Map(),
  waves: new Waves(),
  since: null,
  backfilledAt: null,
  quarantined: 0,
  newestDeletedState: new Map(),
  newestLiveState: new Map(),
  outdatedStates: new Map(),
  servedAt: new Map(),
  rowsWithoutId: 0
})

export const copyOf = ({ backfilledAt, holds, pending, polls, records, since, waves }: StoredState): StoredState => ({
  since,
  backfilledAt,
  records: new Map(records),
  pending: new Map(pending),
  polls: [...polls],
  holds: new Map(holds),
  waves: waves.copy()
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
 * Whether a state that was over was handed out, and nothing told that it is no newer than `than`: its `changed_at` is no
 * earlier, or one of the two has none (P3). `than` is the first of the states that look alike: it may have been a later one.
 */
export const isUndetectablyOld = (stream: ObservedStream, row: Row, state: number, than: number): boolean => {
  const then = row.history[state]!.changedAt
  const [first, ...later] = row.history.slice(Math.max(0, than))
  const alike = [first!, ...later.filter(({ record }) => contentOf(record) === contentOf(first!.record))]
  const isTold = then !== null && alike.every(({ changedAt }) => changedAt !== null && then < changedAt)
  return !isTold && stream.outdatedStates.get(row.id)?.has(state) === true
}

type Path = ReadonlyArray<string>

/** What scope holds mask now. */
const maskedIn = (stream: ObservedStream): ReadonlyArray<Path> =>
  [...stream.holds.values()].flatMap(({ kind, paths }) =>
    kind === "scope" ? paths.map((path) => path.split("/").slice(1)) : []
  )

const isShape = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What stands under a name in a record, told apart from what is volatile there. */
type Canonicalizer = (value: Json | undefined) => string

/** Whether a value is the one shown but for what is masked in it, which is as it was before. */
const isMixed = (
  [value, shown, before]: readonly [Json | undefined, Json | undefined, Json | undefined],
  masked: ReadonlyArray<Path>,
  place: Canonicalizer
): boolean => {
  if (place(value) === place(shown)) return true
  if (masked.some((path) => path.length === 0)) return place(value) === place(before)
  if (masked.length === 0 || !isShape(value) || !isShape(shown)) return false
  return Object.keys({ ...value, ...shown }).every((name) =>
    isMixed(
      [value[name], shown[name], isShape(before) ? before[name] : undefined],
      masked.flatMap(([first, ...rest]) => first === name ? [rest] : []),
      (inner) => place({ [name]: inner ?? null })
    )
  )
}

/**
 * The states that a record to be published as `after` may be in, oldest first. While a scope hold masks properties, they
 * may be as they were published before (C7).
 */
export const statesOf = (
  stream: ObservedStream,
  row: Row,
  before: JsonObject | null,
  after: JsonObject
): ReadonlyArray<number> => {
  const content = contentOf(after)
  const masked = before === null ? [] : maskedIn(stream)
  const place: Canonicalizer = (value) => contentOf(isShape(value) ? value : {})
  return row.history.flatMap(({ record }, state) =>
    contentOf(record) === content || (masked.length > 0 && isMixed([after, record, before ?? undefined], masked, place))
      ? [state]
      : []
  )
}

/** An event of a stream and of what is derived of it, in the order of the log. */
export interface LoggedEvent {
  readonly model: string
  readonly event: NewEvent
}
