/**
 * Reads a list page by page and commits each page in one transaction, while the next page is being fetched.
 *
 * Invariants
 * 1. Snapshots, events and progress of a page are committed together   (I2)
 * 2. Pages are committed in the order in which they were requested, and a stream has one request in flight at a time
 *
 * Gotchas
 * - A list over live data may never end, or its cursors may form a loop. A run is aborted if a cursor repeats, or after a hundred
 *   pages without a record that is new to the run (P4); both are detected even if the run is interrupted and resumed. Only one
 *   cursor is remembered, and it is replaced at pages 1, 2, 4, 8 …, so a loop is found within three rounds.
 * - An empty page with a cursor is not the end of the list (P6).
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

/** A stream with its configuration in this process. */
export interface Stream {
  readonly key: StreamKey & { readonly model: StreamModel }
  readonly settings: StreamSettings
  readonly processing: Processing
  /** Processing of the model derived from the stream's records; null = none is. */
  readonly derivedProcessing: Processing | null
  /** Minimum overlap of polls. The overlap in the stream's state may be longer. */
  readonly overlapMin: Duration.Duration
  readonly guard: Guard.Thresholds
  readonly owner: Owner
}

/** True if the API only returns the list as a whole: the stream is never polled, and every run is a sweep. */
export const isSweepOnly = ({ key }: Pick<Stream, "key">): boolean => registry[key.model].sweepOnly === true

const maxPagesWithoutNewRows = 100

/** With this many unreadable rows the run is aborted, because it would read only a part of the list (S2). */
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

/** Adds a committed page to the counts of the run. */
export const countPage = (run: Run, { rowCounts, missedByPolls }: PageResult): Run => ({
  ...run,
  rowCounts: addRowCounts(run.rowCounts, rowCounts),
  missedByPolls: (run.missedByPolls ?? 0) + missedByPolls,
  pagesWithoutNewRows: rowCounts.read === rowCounts.duplicates ? (run.pagesWithoutNewRows ?? 0) + 1 : 0
})

/** True if the outcomes add up to the rows read (I1). */
export const hasConsistentCounts = ({ read, ...rows }: RowCounts): boolean =>
  Object.values(rows).reduce((sum, amount) => sum + amount, 0) === read

/** Work in the transaction of a page after its rows are written: returns the new stream state and the released changes. */
export type FinishPage = (
  tx: StreamTx,
  state: StreamState,
  context: PageContext,
  committed: PageResult
) => Effect.Effect<ReleaseResult, StoreError>

/** A `FinishPage` that only changes the stream state. */
export const changeState = (change: (state: StreamState) => StreamState): FinishPage => (_, state) =>
  Effect.succeed({ state: change(state), events: [], holds: [] })

/** Records checked per page. Checking a record against its schema takes a sixth of the time of ingesting it. */
const maxSchemaChecks = 25

const schemaDriftIn = (stream: Stream, { rows }: Prepared, { writes }: IngestResult): ReadonlyArray<string> => {
  if (writes.length === 0) return []
  const changed = new Set(writes.filter((write) => write.events.length > 0).map((write) => write.head.id))
  return rows.filter((row) => changed.has(row.id)).slice(0, maxSchemaChecks)
    .flatMap((row) => findSchemaDrift(stream.key.model, row.raw))
}

/** Commits a page in one transaction: its rows, and the stream state that `finish` returns. */
export const commitPage = Effect.fnUntraced(function*(
  stream: Stream,
  results: ReadonlyArray<unknown>,
  run: Pick<Run, "id" | "backfill"> & {
    readonly kind: Run["kind"] | "refresh"
    /** Counts of the run's earlier pages. */
    readonly rowCounts?: RowCounts
  },
  options: {
    readonly isRefetch: boolean
    /** Changes the stream state before the rows of the page are classified. */
    readonly prepareState?: (state: StreamState) => StreamState
    readonly finish: FinishPage
  }
): Effect.fn.Return<PageResult, StoreError | RunAborted, Store> {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const prepared = prepare(stream.processing, results, now)
  const { ingested, before, finished, events } = yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*(tx) {
      const state = withProcessing(updateReportedTo(tx.state), stream.processing)
      const initial = options.prepareState?.(state) ?? state
      const context: PageContext = {
        stream: { ...initial, model: stream.key.model },
        processing: stream.processing,
        derivedProcessing: stream.derivedProcessing,
        guard: stream.guard,
        runId: run.id,
        origin: run.kind,
        backfill: run.backfill,
        isRefetch: options.isRefetch,
        now
      }
      const ingested = yield* ingest(tx, prepared, context)
      const events = yield* appendEvents(tx, ingested.writes, context)
      const unreadable = hasTooManyUnreadable(addRowCounts(run.rowCounts ?? zeroRowCounts, ingested.rowCounts))
      if (unreadable) {
        yield* tx.saveState({ ...state, lastRunId: Math.max(state.lastRunId, run.id) })
        return { ingested, events, finished: null, before: initial.overlap }
      }
      const finished = yield* options.finish(
        tx,
        {
          ...initial,
          lastRunId: Math.max(initial.lastRunId, run.id),
          overlap: widenOverlap(initial, ingested.lag, stream.settings.interval)
        },
        context,
        ingested
      )
      yield* tx.saveState(finished.state)
      return { ingested, events: [...events, ...finished.events], finished, before: initial.overlap }
    })
  )
  yield* Metrics.pageCommitted(stream.key, ingested.rowCounts, (yield* Clock.currentTimeMillis) - now)
  yield* Metrics.schemaDrifted(stream.key, schemaDriftIn(stream, prepared, ingested))
  yield* Metrics.eventsDetected(stream.key, events)
  if (finished === null) {
    const { quarantined, read } = addRowCounts(run.rowCounts ?? zeroRowCounts, ingested.rowCounts)
    return yield* new RunAborted({
      message:
        `${quarantined} of ${read} rows are unreadable; they are in the quarantine and the watermark does not move`,
      blocks: "unreadable"
    })
  }
  yield* logHolds(stream.key, finished.holds)
  yield* Metrics.lateChangeFound(stream.key, ingested.lag, { before, after: finished.state.overlap })
  return ingested
})

export interface PageLoop {
  readonly priority: Priority
  /** Commits one page. `run` already points behind the page; the result also has the counts of the page. */
  readonly commit: (run: Run, page: Page) => Effect.Effect<Run, RunError, Store | Source>
  /** Evaluated after each page: true interrupts the run, which can be resumed. */
  readonly shouldYield: Effect.Effect<boolean>
}

const isPowerOfTwo = (amount: number): boolean => (amount & (amount - 1)) === 0

/** Reads from `start.cursor` to the last page, or until `shouldYield`. */
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
        message:
          `page ${pages} of the list has the cursor of an earlier page; the run will start again at the first page`
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
          `${run.pagesWithoutNewRows} pages in a row had no new record; the run will start again at the first page`
      })
    }
    if (next === null) return { run, done: true }
    if (following === null) return { run, done: false }
    page = yield* following
  }
})
