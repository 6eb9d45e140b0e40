/**
 * Reads a list page by page, and fetches the next page while this one is committed.
 *
 * Invariants
 * 1. Pages are committed in the order in which they were requested, and a stream has one request in flight at a time
 * 2. If the run's fiber is interrupted, a page whose commit has started is committed, and no response is awaited
 *
 * Gotchas
 * - A list over live data may never end, or its cursors may form a loop (P4). A run is therefore aborted if a cursor repeats, or after
 *   `maxPagesWithoutNewRows` pages in a row without a record that is new to the run. The run stores what it needs for that, so it may be
 *   suspended in between.
 * - The run remembers only one cursor, `loopMarker`, and replaces it after pages 1, 2, 4, 8 …. A loop is found when the remembered cursor
 *   comes again. Until then, the run has read at most three times as many pages as there are different cursors.
 * - An empty page with a cursor is not the end of the list (P6).
 * - A sweep may have thousands of pages, so each of its pages begins a trace, which links to the sweep. A poll is one trace.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Page, Priority, Source } from "../../source/Source.ts"
import { finishOnInterrupt } from "../../store/Recovery.ts"
import { addRowCounts, type Run } from "../../store/Run.ts"
import type { Store } from "../../store/Store.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import type { PageCounts } from "../commit/PageCommit.ts"
import { addPublished } from "../commit/RunHistory.ts"
import { requestPage, type RunError, spanAttributes, type Stream } from "../Stream.ts"
import { RunAborted } from "../StreamLifecycle.ts"

const maxPagesWithoutNewRows = 100

/** How long an interrupted run waits at most for the commit of its page: a shard must move within two seconds. */
const longestCommit = Duration.seconds(1)

/** Adds a committed page to the counts of the run. */
export const countPage = (run: Run, { missedByPolls, published, rowCounts }: Omit<PageCounts, "alreadyRead">): Run => ({
  ...run,
  ...published === undefined ? {} : { published: addPublished(run.published, published)! },
  rowCounts: addRowCounts(run.rowCounts, rowCounts),
  missedByPolls: (run.missedByPolls ?? 0) + missedByPolls,
  pagesWithoutNewRows: rowCounts.read === rowCounts.duplicates ? (run.pagesWithoutNewRows ?? 0) + 1 : 0
})

export interface PageLoop {
  readonly priority: Priority
  /** Commits one page. `run` already points to the next page; the result includes the counts of the committed page. */
  readonly commit: (run: Run, page: Page) => Effect.Effect<Run, RunError, Store | Source>
  /** Evaluated after each page. If it is true, the run is suspended, and can be resumed. */
  readonly shouldYield: Effect.Effect<boolean>
}

const isPowerOfTwo = (count: number): boolean => (count & (count - 1)) === 0

/** Reads from `start.cursor` to the last page, or until `shouldYield` is true. Returns `done: false` if the run was suspended. */
export const readPages = Effect.fnUntraced(function*(
  stream: Stream,
  start: Run,
  loop: PageLoop
): Effect.fn.Return<{ readonly run: Run; readonly done: boolean }, RunError, Store | Source> {
  const { updatedAfter } = start
  const inPageSpan = start.kind === "poll"
    ? Tracing.inSpan("page", spanAttributes(stream.key))
    : Tracing.inTrace("page", spanAttributes(stream.key), "current")
  /** Requests a page. Returns the page, and a function that runs the page's commit in its span. */
  const fetch = (cursor: string | null) =>
    inPageSpan(
      requestPage(stream, { priority: loop.priority, cursor, updatedAfter, ids: null }).pipe(
        Effect.tap(({ next, results }) =>
          Tracing.note(() => ({ "rollcall.page.records": results.length, "rollcall.page.last": next === null }))
        ),
        Effect.zip(Tracing.resume)
      )
    )
  let run = start
  stream.onProgress?.(run)
  let [page, inItsSpan] = yield* fetch(start.cursor)
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
      inItsSpan(
        loop.commit({ ...run, pages, cursor: next, ...isPowerOfTwo(pages) ? { loopMarker: next } : {} }, page)
      ).pipe(finishOnInterrupt(longestCommit)),
      ahead === null ? Effect.succeed(null) : Effect.exit(ahead)
    ], { concurrency: 2 })
    run = committed
    stream.onProgress?.(run)
    if ((run.pagesWithoutNewRows ?? 0) >= maxPagesWithoutNewRows) {
      return yield* new RunAborted({
        message: `${run.pagesWithoutNewRows} pages in a row had no new row; the run will start again at the first page`
      })
    }
    if (next === null) return { run, done: true }
    if (following === null) return { run, done: false }
    ;[page, inItsSpan] = yield* following
  }
})
