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
import type * as Guard from "../../domain/Guard.ts"
import { registry, type StreamKey, type StreamModel } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { findSchemaDrift } from "../../domain/SchemaDrift.ts"
import { updateReportedTo } from "../../domain/Watermark.ts"
import { type Page, type Priority, Source, type SourceError } from "../../source/Source.ts"
import type { RowCounts, Run, StreamState } from "../../store/State.ts"
import { type Owner, Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { ingest, type IngestResult, type PageContext, prepare, type Prepared, zeroRowCounts } from "../commit/Ingest.ts"
import { appendEvents } from "../derived/Candidates.ts"
import { logHolds, type ReleaseResult } from "../guard/Release.ts"
import * as Metrics from "../Metrics.ts"
import { RunAborted, type StreamSettings, widenOverlap, withProcessing } from "../schedule/StreamLifecycle.ts"

export type RunError = SourceError | RunAborted | StoreError

/** One stream as this process holds it. */
export interface Stream {
  readonly key: StreamKey & { readonly model: StreamModel }
  readonly settings: StreamSettings
  readonly processing: Processing
  /** Of what is derived of its records; null = nothing is. */
  readonly derivedProcessing: Processing | null
  /** Least overlap of polls; a stream's own margin may have grown beyond it. */
  readonly overlapMin: Duration.Duration
  readonly guard: Guard.Thresholds
  readonly owner: Owner
}

/** Its list only ever comes whole: it is never polled, each of its readings is a sweep. */
export const isSweepOnly = ({ key }: Pick<Stream, "key">): boolean => registry[key.model].sweepOnly === true

const maxPagesWithoutNewRows = 100

/** So many unreadable rows are no accident: what is read past them would be half a list (S2). */
const hasTooManyUnreadable = ({ quarantined, read }: RowCounts): boolean => quarantined >= 10 && quarantined > read / 5

export const newRun = (
  state: StreamState,
  kind: Run["kind"],
  details: Pick<Run, "updatedAfter" | "startedAt" | "backfill">
): Run => ({
  id: state.lastRunId + 1,
  kind,
  cursor: null,
  phase: "pages",
  pages: 0,
  watermark: null,
  rowCounts: zeroRowCounts,
  ...details
})

export const addRowCounts = (a: RowCounts, b: RowCounts): RowCounts =>
  Object.fromEntries(
    (Object.keys(zeroRowCounts) as ReadonlyArray<keyof RowCounts>).map((key) => [key, a[key] + b[key]])
  ) as Record<keyof RowCounts, number>

export type PageResult = Pick<IngestResult, "rowCounts" | "missedByPolls">

/** The reading once one more page of it is committed. */
export const countPage = (run: Run, { rowCounts, missedByPolls }: PageResult): Run => ({
  ...run,
  rowCounts: addRowCounts(run.rowCounts, rowCounts),
  missedByPolls: (run.missedByPolls ?? 0) + missedByPolls,
  pagesWithoutNewRows: rowCounts.read === rowCounts.duplicates ? (run.pagesWithoutNewRows ?? 0) + 1 : 0
})

/** Rows read equal the sum of what they turned out to be (I1). */
export const hasConsistentCounts = ({ read, ...rows }: RowCounts): boolean =>
  Object.values(rows).reduce((sum, amount) => sum + amount, 0) === read

/** Work done in the transaction of a page after its rows: moves the stream on and says what else came of it. */
export type FinishPage = (
  tx: StreamTx,
  state: StreamState,
  context: PageContext,
  committed: PageResult
) => Effect.Effect<ReleaseResult, StoreError>

/** Moves nothing but what is given. */
export const changeState = (change: (state: StreamState) => StreamState): FinishPage => (_, state) =>
  Effect.succeed({ state: change(state), events: [], holds: [] })

/** Holding a record against its schema costs as much as a sixth of taking it in: a few of each page tell enough. */
const maxSchemaChecks = 25

const schemaDriftIn = (stream: Stream, { rows }: Prepared, { writes }: IngestResult): ReadonlyArray<string> => {
  if (writes.length === 0) return []
  const changed = new Set(writes.filter((write) => write.events.length > 0).map((write) => write.head.id))
  return rows.filter((row) => changed.has(row.id)).slice(0, maxSchemaChecks)
    .flatMap((row) => findSchemaDrift(stream.key.model, row.raw))
}

/** One transaction: the rows of a page and what `conclude` makes of the stream. */
export const commitPage = Effect.fnUntraced(function*(
  stream: Stream,
  results: ReadonlyArray<unknown>,
  run: Pick<Run, "id" | "backfill"> & {
    readonly kind: Run["kind"] | "refresh"
    /** Of the pages before. */
    readonly rowCounts?: RowCounts
  },
  options: {
    readonly decisive: boolean
    /** What the page itself makes of the stream before its rows are judged. */
    readonly prepareState?: (state: StreamState) => StreamState
    readonly finish: FinishPage
  }
): Effect.fn.Return<PageResult, StoreError | RunAborted, Store> {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const prepared = prepare(stream.processing, results, now)
  const { absorbed, before, concluded, events } = yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*(tx) {
      const state = withProcessing(updateReportedTo(tx.state), stream.processing)
      const begun = options.prepareState?.(state) ?? state
      const context: PageContext = {
        stream: { ...begun, model: stream.key.model },
        processing: stream.processing,
        derivedProcessing: stream.derivedProcessing,
        guard: stream.guard,
        runId: run.id,
        origin: run.kind,
        backfill: run.backfill,
        isRefetch: options.decisive,
        now
      }
      const absorbed = yield* ingest(tx, prepared, context)
      const events = yield* appendEvents(tx, absorbed.writes, context)
      const unreadable = hasTooManyUnreadable(addRowCounts(run.rowCounts ?? zeroRowCounts, absorbed.rowCounts))
      if (unreadable) {
        yield* tx.saveState({ ...state, lastRunId: Math.max(state.lastRunId, run.id) })
        return { absorbed, events, concluded: null, before: begun.overlap }
      }
      const concluded = yield* options.finish(
        tx,
        {
          ...begun,
          lastRunId: Math.max(begun.lastRunId, run.id),
          overlap: widenOverlap(begun, absorbed.lag, stream.settings.interval)
        },
        context,
        absorbed
      )
      yield* tx.saveState(concluded.state)
      return { absorbed, events: [...events, ...concluded.events], concluded, before: begun.overlap }
    })
  )
  yield* Metrics.pageCommitted(stream.key, absorbed.rowCounts, (yield* Clock.currentTimeMillis) - now)
  yield* Metrics.schemaDrifted(stream.key, schemaDriftIn(stream, prepared, absorbed))
  yield* Metrics.eventsDetected(stream.key, events)
  if (concluded === null) {
    const { quarantined, read } = addRowCounts(run.rowCounts ?? zeroRowCounts, absorbed.rowCounts)
    return yield* new RunAborted({
      message: `${quarantined} of ${read} rows have no usable id; they are in the quarantine, the watermark stays`,
      blocks: "unreadable"
    })
  }
  yield* logHolds(stream.key, concluded.holds)
  yield* Metrics.lateChangeFound(stream.key, absorbed.lag, { before, after: concluded.state.overlap })
  return absorbed
})

export interface PageLoop {
  readonly priority: Priority
  /** Commits one page of the reading, which stands behind it already, and gives it back with what was on the page. */
  readonly commit: (run: Run, page: Page) => Effect.Effect<Run, RunError, Store | Source>
  /** Asked after each page: true leaves the reading where it stands. */
  readonly shouldYield: Effect.Effect<boolean>
}

const isPowerOfTwo = (amount: number): boolean => (amount & (amount - 1)) === 0

/** Reads on from `start.cursor` to the last page, or to where it yields. */
export const readPages = Effect.fnUntraced(function*(
  stream: Stream,
  start: Run,
  loop: PageLoop
): Effect.fn.Return<{ readonly run: Run; readonly done: boolean }, RunError, Store | Source> {
  const source = yield* Source
  const fetch = (cursor: string | null) =>
    source.page({
      account: stream.settings.account,
      integration: stream.key.integration,
      model: stream.key.model,
      priority: loop.priority,
      cursor,
      updatedAfter: start.updatedAfter,
      ids: null
    })
  let run = start
  let page = yield* fetch(start.cursor)
  for (;;) {
    const next = page.next
    const pages = run.pages + 1
    if (next !== null && (next === run.cursor || next === run.loopMarker)) {
      return yield* new RunAborted({
        message: `the list came back to a cursor already read (page ${pages}); the reading starts anew later`
      })
    }
    const ahead = next === null || (yield* loop.shouldYield) ? null : fetch(next)
    const [committed, following] = yield* Effect.all([
      loop.commit({ ...run, pages, cursor: next, ...isPowerOfTwo(pages) ? { loopMarker: next } : {} }, page),
      ahead === null ? Effect.succeed(null) : Effect.exit(ahead)
    ], { concurrency: 2 })
    run = committed
    if ((run.pagesWithoutNewRows ?? 0) >= maxPagesWithoutNewRows) {
      return yield* new RunAborted({
        message:
          `${run.pagesWithoutNewRows} pages in a row brought nothing new and the list did not end; the reading starts anew later`
      })
    }
    if (next === null) return { run, done: true }
    if (following === null) return { run, done: false }
    page = yield* following
  }
})
