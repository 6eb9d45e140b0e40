/**
 * Commits a page in one transaction: its records, their events, and the stream's next state.
 *
 * Invariants
 * 1. Snapshots, events and progress of a page are committed together   (I2)
 * 2. A forgotten record is not stored, and neither are its copies in other records
 * 3. If a run has too many unreadable rows, its records and events are committed, but not its progress   (S2)
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { containsForgottenId, type Forgotten, nothingForgotten, removalOf } from "../../domain/Forgotten.ts"
import { pollOverlap, widenOverlap } from "../../domain/Lateness.ts"
import type { RawRow } from "../../domain/RawRow.ts"
import { findSchemaDrift } from "../../domain/SchemaDrift.ts"
import { type ClockSample, updateReportedTo } from "../../domain/Watermark.ts"
import type { Page } from "../../source/Source.ts"
import { addRowCounts, type PublishedCounts, type RowCounts, type Run, zeroRowCounts } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import { appendEvents } from "../append/AppendEvents.ts"
import { takeUnconfirmedWrites } from "../append/Attribution.ts"
import { logHolds, releaseStaged } from "../guard/Release.ts"
import * as Metrics from "../Metrics.ts"
import { pageContext } from "../record/PageContext.ts"
import { withProcessing } from "../record/StoredContent.ts"
import { annotate, spanAttributes, type Stream, transact } from "../Stream.ts"
import { RunAborted } from "../StreamLifecycle.ts"
import { emptyPlan, type PagePlan, planPage, prepare, type Prepared, queryOf } from "./PagePlan.ts"
import { endRun, publishedIn } from "./RunHistory.ts"

export interface PageToCommit {
  readonly results: ReadonlyArray<RawRow>
  /** The response that showed the rows, the last one if there were several; absent if there are no rows. */
  readonly shownBy?: ClockSample & Pick<Page, "world"> | undefined
  readonly run: Pick<Run, "id" | "backfill"> & {
    readonly kind: Run["kind"] | "refresh"
    /** Counts of the run's earlier pages. */
    readonly rowCounts?: RowCounts
  }
  /** The rows are from a refetch by id. */
  readonly isRefetch: boolean
  /** True if the run is complete with this page, so that the staged changes are released. */
  readonly endsRun?: boolean
  /** Changes the stream's state before the rows are classified. */
  readonly before?: (state: StreamState) => StreamState
  /** Changes the stream's state after the rows are written. */
  readonly after?: (state: StreamState, page: PageCounts) => StreamState
  /**
   * The stream's state as this process last read or wrote it. If it is still the stored one, an empty page that ends a poll of a quiet
   * stream is committed by one statement.
   */
  readonly known?: StreamState | undefined
  /** Further work in the same transaction. */
  readonly also?: (tx: StreamTx) => Effect.Effect<void, StoreError>
}

export interface PageCounts extends Pick<PagePlan, "rowCounts" | "alreadyRead" | "missedByPolls"> {
  /** Events of the stream that the page published; absent = none. */
  readonly published?: PublishedCounts | undefined
}

export interface CommittedPage extends PageCounts {
  /**
   * True if the page was committed by one statement (see `known`). The page was then empty, and the stream has no pending rows, no stale
   * records and no holds that have not ended. False says nothing about these.
   */
  readonly isQuiet: boolean
  /** The stream's state before the rows were written, with the changes of `PageToCommit.before`. */
  readonly before: StreamState
  /** The stream's state after the commit. */
  readonly state: StreamState
}

/** True if so many rows are unreadable that the run must not count as a read of the whole list. It is then aborted (S2). */
const hasTooManyUnreadable = ({ quarantined, read }: RowCounts): boolean => quarantined >= 10 && quarantined > read / 5

/** Records checked per page. A check takes as long as computing the canonical form and its hash. */
const maxSchemaChecks = 5

const schemaDriftIn = ({ processing }: Stream, { copies }: Prepared, { writes }: PagePlan): ReadonlyArray<string> =>
  writes.filter(({ events }) => events.length > 0).slice(0, maxSchemaChecks)
    .flatMap(({ head }) => copies.get(head.id) ?? []).flatMap((row) =>
      findSchemaDrift(processing.entry.schema, row.raw)
    )

/** The sandbox names its world. If another world answers than before, the stored records are those of a world that no longer exists. */
const noteWorld = (state: StreamState, world: string | null): StreamState => {
  if (world === null || world === (state.otherWorld ?? state.world)) return state
  if (state.world === undefined) return { ...state, world }
  const { otherWorld: _, ...same } = state
  return world === state.world ? same : { ...state, otherWorld: world }
}

export const commitPage = Effect.fnUntraced(function*(
  stream: Stream,
  page: PageToCommit
): Effect.fn.Return<CommittedPage, StoreError | RunAborted, Store> {
  const { derivedProcessing, key, minOverlap, processing, settings: { interval } } = stream
  const { run } = page
  const now = yield* Clock.currentTimeMillis
  const prepareWithout = (forgotten: Forgotten) => {
    const removal = removalOf(processing.models, key.model, forgotten)
    const { copies, unreadable } = prepare(processing, page.results, now, removal)
    const kept = unreadable.filter(({ content }) => !containsForgottenId(content, forgotten))
    return { forgotten, copies, unreadable: kept, query: queryOf(copies, run.id) }
  }
  let prepared = prepareWithout(nothingForgotten)
  /** Prepares the page again if other records have been forgotten. */
  const preparedFor = (forgotten: Forgotten) =>
    Equal.equals(prepared.forgotten, forgotten) ? prepared : prepared = prepareWithout(forgotten)
  const updated = (state: StreamState) => withProcessing(updateReportedTo(state), processing)
  const afterRows = (before: StreamState, rows: Pick<PagePlan, "lag"> & PageCounts): StreamState => {
    const lastRunId = Math.max(before.lastRunId, run.id)
    const read = { ...before, lastRunId, overlap: widenOverlap(before.overlap, rows.lag, { interval, minOverlap }) }
    return noteWorld(page.after?.(read, rows) ?? read, page.shownBy?.world ?? null)
  }
  /** Commits an empty page by one statement, without reading the store; null if the stream is not quiet, or `known` is not its state. */
  const commitQuietly = Effect.fnUntraced(function*(known: StreamState) {
    const before = updated(known)
    const { entry, state } = endRun(afterRows(before, emptyPlan), { kind: "poll", before })
    // earlier pages of the poll had changes, so the run must be recorded
    if (entry !== null) return null
    const isReplaced = yield* (yield* Store).replaceQuietState(stream.owner, known, state)
    return isReplaced
      ? {
        before,
        plan: emptyPlan,
        published: undefined,
        events: [],
        finished: { state, holds: [], unconfirmed: [] }
      }
      : null
  })
  const commit = Effect.fnUntraced(function*(tx: StreamTx) {
    const stored = updated(tx.state)
    const before = page.before?.(stored) ?? stored
    const context = pageContext(stream, before, run, now, page.isRefetch, page.shownBy)
    const current = preparedFor(yield* tx.forgotten)
    const plan = planPage(current, yield* tx.read(current.query), context)
    yield* tx.markSeen(plan.seen, run.id)
    yield* tx.dropPending(plan.dropPending)
    yield* tx.putPending(plan.putPending)
    yield* tx.quarantine(plan.quarantined)
    const events = yield* appendEvents(tx, plan.writes, context)
    const published = publishedIn(key.model, events)
    if (hasTooManyUnreadable(addRowCounts(run.rowCounts ?? zeroRowCounts, plan.rowCounts))) {
      yield* tx.saveState({ ...stored, lastRunId: Math.max(before.lastRunId, run.id) })
      return { before, plan, published, events, finished: null }
    }
    const advanced = afterRows(before, { ...plan, published })
    const mayRelease = tx.hasStaged || tx.hasHolds || plan.putPending.length > 0
    const released = page.endsRun === true && mayRelease
      ? yield* releaseStaged(tx, advanced, context)
      : { state: advanced, events: [], holds: [] }
    const unconfirmed = page.endsRun === true && run.kind === "sweep"
      ? yield* takeUnconfirmedWrites(tx, run.id, derivedProcessing?.model ?? null)
      : []
    if (page.also !== undefined) yield* page.also(tx)
    const { entry, state } = page.endsRun === true && run.kind !== "refresh"
      ? endRun(released.state, { kind: run.kind, before, released: publishedIn(key.model, released.events) })
      : { entry: null, state: released.state }
    if (entry !== null) yield* tx.recordRun(entry)
    yield* tx.saveState(state)
    const finished = { ...released, state, unconfirmed }
    return { before, plan, published, events: [...events, ...released.events], finished }
  })
  const commitWhole = Effect.tap(
    transact(stream, commit, (forgotten) => preparedFor(forgotten).query),
    ({ events, plan: { rowCounts } }) =>
      Tracing.note(() => ({
        "rollcall.records.read": rowCounts.read,
        "rollcall.records.changed": rowCounts.changed,
        "rollcall.events": events.length
      }))
  )
  const mayBeQuiet = page.results.length === 0 && page.endsRun === true && run.kind === "poll"
  const quiet = mayBeQuiet && page.known !== undefined ? yield* commitQuietly(page.known) : null
  const { before, events, finished, plan, published } = quiet ??
    (yield* Tracing.inSpanOrTrace("commit", spanAttributes(key))(commitWhole))
  yield* Metrics.pageCommitted(key, plan.rowCounts, (yield* Clock.currentTimeMillis) - now)
  yield* Metrics.schemaDrifted(key, schemaDriftIn(stream, prepared, plan))
  yield* Metrics.eventsDetected(events)
  if (finished === null) {
    const { quarantined, read } = addRowCounts(run.rowCounts ?? zeroRowCounts, plan.rowCounts)
    return yield* new RunAborted({
      message:
        `${quarantined} of ${read} rows are unreadable; they are in the quarantine and the watermark does not move`,
      blocks: "unreadable"
    })
  }
  const { holds, state, unconfirmed } = finished
  yield* logHolds(key, holds)
  if (state.otherWorld !== undefined && state.otherWorld !== before.otherWorld) {
    yield* Effect.logWarning("the API's data is a different world than the one in this store").pipe(
      annotate(key, { hint: "the sandbox was started again: start Rollcall with a new store" })
    )
  }
  yield* Metrics.lateChangeFound(key, plan.lag, {
    before: pollOverlap(before.overlap, minOverlap),
    after: pollOverlap(state.overlap, minOverlap)
  })
  yield* Metrics.writesUnconfirmed(key, unconfirmed)
  return { ...plan, published, before, state, isQuiet: quiet !== null }
})
