/**
 * Reads a list page by page and commits each page in one transaction, fetching the next one meanwhile.
 *
 * Invariants
 * 1. Snapshots, events and progress of a page are committed together   (I2)
 * 2. Pages are committed in the order in which they were asked for; one request of a stream is under way at a time
 *
 * Gotchas
 * - A list over live data may never end, or lead in a circle: a cursor that comes back, or a hundred pages without a record
 *   that is new to the reading, aborts (P4), in however many turns it is read. One cursor at a time is remembered, of a page
 *   twice as far as that before, so a circle is found within three rounds. An empty page with a cursor is not the end (P6).
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { driftOf } from "../domain/Drift.ts"
import type * as Guard from "../domain/Guard.ts"
import { registry, type StreamKey, type StreamModel } from "../domain/Model.ts"
import type { Processing } from "../domain/Processing.ts"
import { reported } from "../domain/Watermark.ts"
import { type Page, type Priority, Source, type SourceError } from "../source/Source.ts"
import type { Balance, Reading, StreamState } from "../store/State.ts"
import { type Owner, Store, type StoreError, type StreamTx } from "../store/Store.ts"
import { absorb, type Absorbed, emptyBalance, type Occasion, prepare, type Prepared } from "./Absorb.ts"
import { publish } from "./Candidates.ts"
import * as Gauges from "./Gauges.ts"
import { type Released, tellHolds } from "./Release.ts"
import { processedBy, ReadingAborted, type StreamSettings, widened } from "./StreamState.ts"

export type ReadingError = SourceError | ReadingAborted | StoreError

/** One stream as this process holds it. */
export interface Stream {
  readonly key: StreamKey & { readonly model: StreamModel }
  readonly settings: StreamSettings
  readonly processing: Processing
  /** Of what is derived of its records; null = nothing is. */
  readonly derives: Processing | null
  /** Least overlap of polls; a stream's own margin may have grown beyond it. */
  readonly overlapMin: Duration.Duration
  readonly guard: Guard.Thresholds
  readonly owner: Owner
}

/** Its list only ever comes whole: it is never polled, each of its readings is a sweep. */
export const isWhole = ({ key }: Pick<Stream, "key">): boolean => registry[key.model].full === true

const fruitlessPages = 100

/** So many unreadable rows are no accident: what is read past them would be half a list (S2). */
const isUnreadable = ({ quarantined, read }: Balance): boolean => quarantined >= 10 && quarantined > read / 5

export const newReading = (
  state: StreamState,
  kind: Reading["kind"],
  details: Pick<Reading, "from" | "startedAt" | "backfill">
): Reading => ({
  id: state.reading + 1,
  kind,
  cursor: null,
  phase: "pages",
  pages: 0,
  complete: null,
  balance: emptyBalance,
  ...details
})

export const addBalance = (a: Balance, b: Balance): Balance =>
  Object.fromEntries(
    (Object.keys(emptyBalance) as ReadonlyArray<keyof Balance>).map((key) => [key, a[key] + b[key]])
  ) as Record<keyof Balance, number>

export type Committed = Pick<Absorbed, "balance" | "unheard">

/** The reading once one more page of it is committed. */
export const counted = (reading: Reading, { balance, unheard }: Committed): Reading => ({
  ...reading,
  balance: addBalance(reading.balance, balance),
  unheard: (reading.unheard ?? 0) + unheard,
  fruitless: balance.read === balance.duplicates ? (reading.fruitless ?? 0) + 1 : 0
})

/** Rows read equal the sum of what they turned out to be (I1). */
export const isBalanced = ({ read, ...rows }: Balance): boolean =>
  Object.values(rows).reduce((sum, amount) => sum + amount, 0) === read

/** Work done in the transaction of a page after its rows: moves the stream on and says what else came of it. */
export type Conclude = (
  tx: StreamTx,
  state: StreamState,
  occasion: Occasion,
  committed: Committed
) => Effect.Effect<Released, StoreError>

/** Moves nothing but what is given. */
export const concludeWith = (change: (state: StreamState) => StreamState): Conclude => (_, state) =>
  Effect.succeed({ state: change(state), events: [], holds: [] })

/** Holding a record against its schema costs as much as a sixth of taking it in: a few of each page tell enough. */
const heldAgainstSchema = 25

const driftIn = (stream: Stream, { rows }: Prepared, { writes }: Absorbed): ReadonlyArray<string> => {
  if (writes.length === 0) return []
  const changed = new Set(writes.filter((write) => write.events.length > 0).map((write) => write.head.id))
  return rows.filter((row) => changed.has(row.id)).slice(0, heldAgainstSchema)
    .flatMap((row) => driftOf(stream.key.model, row.raw))
}

/** One transaction: the rows of a page and what `conclude` makes of the stream. */
export const commitPage = Effect.fnUntraced(function*(
  stream: Stream,
  results: ReadonlyArray<unknown>,
  reading: Pick<Reading, "id" | "backfill"> & {
    readonly kind: Reading["kind"] | "refresh"
    /** Of the pages before. */
    readonly balance?: Balance
  },
  options: {
    readonly decisive: boolean
    /** What the page itself makes of the stream before its rows are judged. */
    readonly begin?: (state: StreamState) => StreamState
    readonly conclude: Conclude
  }
): Effect.fn.Return<Committed, StoreError | ReadingAborted, Store> {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const prepared = prepare(stream.processing, results, now)
  const { absorbed, before, concluded, events } = yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*(tx) {
      const state = processedBy(reported(tx.state), stream.processing)
      const begun = options.begin?.(state) ?? state
      const occasion: Occasion = {
        stream: { ...begun, model: stream.key.model },
        processing: stream.processing,
        derives: stream.derives,
        guard: stream.guard,
        reading: reading.id,
        origin: reading.kind,
        backfill: reading.backfill,
        decisive: options.decisive,
        now
      }
      const absorbed = yield* absorb(tx, prepared, occasion)
      const events = yield* publish(tx, absorbed.writes, occasion)
      const unreadable = isUnreadable(addBalance(reading.balance ?? emptyBalance, absorbed.balance))
      if (unreadable) {
        yield* tx.save({ ...state, reading: Math.max(state.reading, reading.id) })
        return { absorbed, events, concluded: null, before: begun.margin }
      }
      const concluded = yield* options.conclude(
        tx,
        {
          ...begun,
          reading: Math.max(begun.reading, reading.id),
          margin: widened(begun, absorbed.lag, stream.settings.interval)
        },
        occasion,
        absorbed
      )
      yield* tx.save(concluded.state)
      return { absorbed, events: [...events, ...concluded.events], concluded, before: begun.margin }
    })
  )
  yield* Gauges.pageCommitted(stream.key, absorbed.balance, (yield* Clock.currentTimeMillis) - now)
  yield* Gauges.schemaDrifted(stream.key, driftIn(stream, prepared, absorbed))
  yield* Gauges.eventsDetected(stream.key, events)
  if (concluded === null) {
    const { quarantined, read } = addBalance(reading.balance ?? emptyBalance, absorbed.balance)
    return yield* new ReadingAborted({
      message: `${quarantined} of ${read} rows have no usable id; they are in the quarantine, the watermark stays`,
      blocks: "unreadable"
    })
  }
  yield* tellHolds(stream.key, concluded.holds)
  yield* Gauges.shownLate(stream.key, absorbed.lag, { before, after: concluded.state.margin })
  return absorbed
})

export interface PageLoop {
  readonly priority: Priority
  /** Commits one page of the reading, which stands behind it already, and gives it back with what was on the page. */
  readonly commit: (reading: Reading, page: Page) => Effect.Effect<Reading, ReadingError, Store | Source>
  /** Asked after each page: true leaves the reading where it stands. */
  readonly yieldTurn: Effect.Effect<boolean>
}

const isPowerOfTwo = (amount: number): boolean => (amount & (amount - 1)) === 0

/** Reads on from `start.cursor` to the last page, or to where it yields. */
export const readPages = Effect.fnUntraced(function*(
  stream: Stream,
  start: Reading,
  loop: PageLoop
): Effect.fn.Return<{ readonly reading: Reading; readonly done: boolean }, ReadingError, Store | Source> {
  const source = yield* Source
  const fetch = (cursor: string | null) =>
    source.page({
      account: stream.settings.account,
      integration: stream.key.integration,
      model: stream.key.model,
      priority: loop.priority,
      cursor,
      updatedAfter: start.from,
      ids: null
    })
  let reading = start
  let page = yield* fetch(start.cursor)
  for (;;) {
    const next = page.next
    const pages = reading.pages + 1
    if (next !== null && (next === reading.cursor || next === reading.mark)) {
      return yield* new ReadingAborted({
        message: `the list came back to a cursor already read (page ${pages}); the reading starts anew later`
      })
    }
    const ahead = next === null || (yield* loop.yieldTurn) ? null : fetch(next)
    const [committed, following] = yield* Effect.all([
      loop.commit({ ...reading, pages, cursor: next, ...isPowerOfTwo(pages) ? { mark: next } : {} }, page),
      ahead === null ? Effect.succeed(null) : Effect.exit(ahead)
    ], { concurrency: 2 })
    reading = committed
    if ((reading.fruitless ?? 0) >= fruitlessPages) {
      return yield* new ReadingAborted({
        message:
          `${reading.fruitless} pages in a row brought nothing new and the list did not end; the reading starts anew later`
      })
    }
    if (next === null) return { reading, done: true }
    if (following === null) return { reading, done: false }
    page = yield* following
  }
})
