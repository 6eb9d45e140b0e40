/**
 * What the oracle knows of one stream: what is published and pending of each record, what was handed out of it, and who
 * was asked. Hides how contents are recognised as states of the world.
 */
import type { NewEvent } from "../../src/domain/ChangeEvent.ts"
import type { Hold, Pending } from "../../src/store/State.ts"
import { contentOf } from "./Content.ts"
import type { Copy } from "./FaultyApi.ts"
import { Waves } from "./Waves.ts"
import type { Json, Row, Shape, Table } from "./World.ts"

/** What is published of one record, and which of its states that was. */
export interface Published {
  readonly version: number
  readonly after: Shape | null
  readonly afterText: string | null
  /** Newest state that the published sequence has reached. */
  readonly state: number
  /** Its life began with nothing in it. */
  readonly bornEmpty: boolean
}

export const unpublished: Published = { version: 0, after: null, afterText: null, state: -1, bornEmpty: false }

export interface CommittedPoll {
  readonly startedAt: number
  readonly from: number
}

export interface Stream {
  readonly table: Table
  readonly records: Map<string, Published>
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
  readonly deadShown: Map<string, number>
  readonly liveShown: Map<string, { readonly state: number; readonly at: number }>
  readonly olderShown: Map<string, Set<number>>
  /** Of each record, when its states were handed out last. */
  readonly shownAt: Map<string, Map<number, number>>
  namelessShown: number
}

/** What of it is in the store, and goes back with a copy of it. */
export type Stored = Pick<Stream, "records" | "pending" | "polls" | "holds" | "waves" | "since" | "backfilledAt">

export const nameOf = (table: Table): string => `${table.integration}/${table.model}`

/** `what` it does that it must not, in words. */
export type Report = (invariant: string, what: string) => void

export const streamOf = (table: Table): Stream => ({
  table,
  records: new Map(),
  pending: new Map(),
  polls: [],
  holds: new Map(),
  waves: new Waves(),
  since: null,
  backfilledAt: null,
  quarantined: 0,
  deadShown: new Map(),
  liveShown: new Map(),
  olderShown: new Map(),
  shownAt: new Map(),
  namelessShown: 0
})

export const copyOf = ({ backfilledAt, holds, pending, polls, records, since, waves }: Stored): Stored => ({
  since,
  backfilledAt,
  records: new Map(records),
  pending: new Map(pending),
  polls: [...polls],
  holds: new Map(holds),
  waves: waves.copy()
})

export const handedOut = (stream: Stream, copies: ReadonlyArray<Copy>, now: number): void => {
  for (const { named, row, state } of copies) {
    if (!named) {
      stream.namelessShown++
      continue
    }
    stream.shownAt.set(row.id, (stream.shownAt.get(row.id) ?? new Map()).set(state, now))
    if (row.shown[state]!.live) stream.liveShown.set(row.id, { state, at: now })
    else stream.deadShown.set(row.id, Math.max(state, stream.deadShown.get(row.id) ?? -1))
    if (state < row.shown.length - 1) {
      stream.olderShown.set(row.id, (stream.olderShown.get(row.id) ?? new Set()).add(state))
    }
  }
}

/**
 * Whether a state that was over was handed out, and nothing told that it is no newer than `than`: its `changed_at` is no
 * earlier, or one of the two has none (P3). `than` is the first of the states that look alike: it may have been a later one.
 */
export const isDisguised = (stream: Stream, row: Row, state: number, than: number): boolean => {
  const then = row.shown[state]!.changedAt
  const [first, ...later] = row.shown.slice(Math.max(0, than))
  const alike = [first!, ...later.filter(({ record }) => contentOf(record) === contentOf(first!.record))]
  const isTold = then !== null && alike.every(({ changedAt }) => changedAt !== null && then < changedAt)
  return !isTold && stream.olderShown.get(row.id)?.has(state) === true
}

type Path = ReadonlyArray<string>

/** What scope holds mask now. */
const maskedIn = (stream: Stream): ReadonlyArray<Path> =>
  [...stream.holds.values()].flatMap(({ kind, paths }) =>
    kind === "scope" ? paths.map((path) => path.split("/").slice(1)) : []
  )

const isShape = (value: Json | undefined): value is Shape =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What stands under a name in a record, told apart from what is volatile there. */
type Place = (value: Json | undefined) => string

/** Whether a value is the one shown but for what is masked in it, which is as it was before. */
const isMixed = (
  [value, shown, before]: readonly [Json | undefined, Json | undefined, Json | undefined],
  masked: ReadonlyArray<Path>,
  place: Place
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
export const statesOf = (stream: Stream, row: Row, before: Shape | null, after: Shape): ReadonlyArray<number> => {
  const content = contentOf(after)
  const masked = before === null ? [] : maskedIn(stream)
  const place: Place = (value) => contentOf(isShape(value) ? value : {})
  return row.shown.flatMap(({ record }, state) =>
    contentOf(record) === content || (masked.length > 0 && isMixed([after, record, before ?? undefined], masked, place))
      ? [state]
      : []
  )
}

/** An event of a stream and of what is derived of it, in the order of the log. */
export interface Logged {
  readonly model: string
  readonly event: NewEvent
}
