/**
 * Audits a stream: reads its whole list again, compares each record with its published content, and reports the differences. The audit
 * publishes nothing.
 *
 * Invariants
 * 1. A difference is reported only if the API showed it, if it is not pending, and if it was still unpublished at the end of the audit
 *
 * Gotchas
 * - The stored content of each record's newest event is hashed again for the comparison, so a damaged log is found too.
 * - The audit has a separate run id and marks every record that it reads with that id, so that missing records are found without keeping
 *   ids in memory (I9).
 * - A change that only a sweep can find (of nested content, without a new `changed_at`) is reported until the next sweep.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { canonicalHash } from "../../domain/Canonical.ts"
import { diff } from "../../domain/Diff.ts"
import { removalOf } from "../../domain/Forgotten.ts"
import { streamName } from "../../domain/Model.ts"
import { type Observation, observe, parseRow, type Row } from "../../domain/Observation.ts"
import type { RawRow } from "../../domain/RawRow.ts"
import type { Page, Source } from "../../source/Source.ts"
import { anyHash, type Head, type PendingStatus, queryFor, type StoredContent } from "../../store/Records.ts"
import { type Run, zeroRowCounts } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, type StreamTx } from "../../store/Store.ts"
import { currentContent } from "../record/StoredContent.ts"
import { forEachPart, type RunError, type Stream, transact } from "../Stream.ts"
import { newRun } from "../StreamLifecycle.ts"
import { countPage, readPages } from "./Pages.ts"
import { maxRefetchIds } from "./Refetch.ts"

const Difference = Schema.Struct({
  id: Schema.String,
  /**
   * `unknown`: the API shows a live record that was never published. `gone`: the record is published as live, but the API does
   * not show it, or shows it as deleted. `deleted`: the record is published as deleted, but the API shows it as live. `content`:
   * the contents differ.
   */
  what: Schema.Literals(["unknown", "gone", "deleted", "content"]),
  /** For `content`: the differing paths as JSON Pointers, without values   (I11) */
  paths: Schema.Array(Schema.String)
})
type Difference = typeof Difference.Type

export const AuditReport = Schema.Struct({
  /** Rows that the audit read, tombstones included. */
  read: Schema.Number,
  /** Pending records by status. */
  pending: Schema.Record(
    Schema.Literals(["staged", "held", "rejected", "disputed", "absent"] satisfies ReadonlyArray<PendingStatus>),
    Schema.optionalKey(Schema.Number)
  ),
  quarantined: Schema.Number,
  differing: Schema.Number,
  /** The first `maxDifferences` differences. */
  differences: Schema.Array(Difference)
})
export type AuditReport = typeof AuditReport.Type

/** Differences that are checked again and reported. Further differences are only counted. */
const maxDifferences = 1_000

interface PossibleDifference extends Difference {
  /** Log position of the published content at the time of the comparison. */
  readonly position: number | null
}

const compareRecord = (
  { processing }: Stream,
  state: StreamState,
  observed: Observation,
  head: Head | undefined,
  content: StoredContent | null | undefined
): ReadonlyArray<PossibleDifference> => {
  const suspect = (what: Difference["what"], paths: ReadonlyArray<string> = []) => [
    { id: observed.id, what, paths, position: head?.position ?? null }
  ]
  const live = !observed.deleted && !observed.blank
  if (head?.live !== true) return live ? suspect(head === undefined ? "unknown" : "deleted") : []
  if (!live) return suspect("gone")
  const published = currentContent(processing, state, content) ?? {}
  return canonicalHash(processing.shape, published) === observed.canonicalHash()
    ? []
    : suspect("content", diff(processing.shape, published, observed.content).map(({ path }) => path))
}

/** Compares the records of one page and marks them as seen. */
const compare = Effect.fnUntraced(function*(
  stream: Stream,
  tx: StreamTx,
  results: ReadonlyArray<RawRow>,
  auditRunId: number
) {
  const rows = new Map<string, Row>()
  const removal = removalOf(stream.processing.models, stream.key.model, yield* tx.forgotten)
  for (const one of results) {
    if (removal.isForgotten(one.id)) continue
    const row = parseRow(stream.processing, one, removal)
    if ("id" in row) rows.set(row.id, row)
  }
  const ids = [...rows.keys()]
  const { contents, heads, pending } = yield* tx.read(queryFor(ids, anyHash))
  yield* tx.markSeen(ids.filter((id) => heads.has(id)), auditRunId)
  return [...rows].filter(([id]) => !pending.has(id)).flatMap(([id, row]) => {
    const head = heads.get(id)
    return compareRecord(stream, tx.state, observe(stream.processing, row), head, contents.get(id))
  })
})

/** The differences of records that are published as live but were not read by the audit. */
const compareMissing = Effect.fnUntraced(function*(tx: StreamTx, ids: ReadonlyArray<string>) {
  const { heads, pending } = yield* tx.read(queryFor(ids, null))
  return ids.filter((id) => !pending.has(id)).map((id): PossibleDifference => ({
    id,
    what: "gone",
    paths: [],
    position: heads.get(id)?.position ?? null
  }))
})

/** The differences whose records have no new event and no pending row since the comparison. */
const stillDiffering = Effect.fnUntraced(function*(tx: StreamTx, suspects: ReadonlyArray<PossibleDifference>) {
  const ids = suspects.map(({ id }) => id)
  const { heads, pending } = yield* tx.read(queryFor(ids, null))
  return suspects.filter(({ id, position }) => !pending.has(id) && (heads.get(id)?.position ?? null) === position)
})

/** Adds a line to the audit log. */
const note = (stream: Stream, tx: StreamTx, detail: string) =>
  Effect.flatMap(
    Clock.currentTimeMillis,
    (at) => tx.recordAction({ at, command: "streams.audit", target: streamName(stream.key), detail })
  )

const run = Effect.fn("Audit.run")(function*(
  stream: Stream,
  catchUp: Effect.Effect<void, RunError, Store | Source>
): Effect.fn.Return<AuditReport, RunError, Store | Source> {
  const store = yield* Store
  yield* catchUp
  const startedAt = yield* Clock.currentTimeMillis
  const start = yield* transact(stream, (tx) => {
    const run = newRun(tx.state, "sweep", { updatedAfter: null, startedAt, backfill: false })
    return Effect.as(tx.saveState({ ...tx.state, lastRunId: run.id }), run)
  })
  const suspects: Array<PossibleDifference> = []
  let differing = 0
  const collect = (found: ReadonlyArray<PossibleDifference>) => {
    differing += found.length
    suspects.push(...found.slice(0, Math.max(0, maxDifferences - suspects.length)))
  }
  const { run: pass } = yield* readPages(stream, start, {
    priority: "sweep",
    shouldYield: Effect.succeed(false),
    commit: Effect.fnUntraced(function*(run: Run, page: Page) {
      collect(yield* transact(stream, (tx) => compare(stream, tx, page.results, start.id)))
      return countPage(run, { rowCounts: { ...zeroRowCounts, read: page.results.length }, missedByPolls: 0 })
    })
  })
  yield* forEachPart(
    maxRefetchIds,
    (after, limit) =>
      Effect.map(store.liveNotSeenSince(stream.key, start.id, after, limit), (ids) => ids.map((id) => ({ id }))),
    (missing) => Effect.map(transact(stream, (tx) => compareMissing(tx, missing.map(({ id }) => id))), collect)
  )
  yield* catchUp
  const counts = (yield* store.counts).find((row) => streamName(row) === streamName(stream.key))
  const outcome = yield* transact(stream, (tx) =>
    Effect.gen(function*() {
      const left = yield* stillDiffering(tx, suspects)
      const all = differing - suspects.length + left.length
      yield* note(stream, tx, `${all} of ${pass.rowCounts.read} records differ`)
      return { left, differing: all }
    }))
  return {
    read: pass.rowCounts.read,
    pending: counts?.pending ?? {},
    quarantined: counts?.quarantined ?? 0,
    differing: outcome.differing,
    differences: outcome.left.map(({ id, paths, what }) => ({ id, what, paths }))
  }
})

/**
 * Polls, reads and compares the whole list, and polls again, so that changes made during the audit are not reported. The audit log records
 * the start of the audit, and its outcome unless the process ends first.
 */
export const audit = (
  stream: Stream,
  catchUp: Effect.Effect<void, RunError, Store | Source>
): Effect.Effect<AuditReport, RunError, Store | Source> =>
  transact(stream, (tx) => note(stream, tx, "started")).pipe(
    Effect.andThen(
      Effect.onError(
        run(stream, catchUp),
        () => Effect.ignore(transact(stream, (tx) => note(stream, tx, "not completed")))
      )
    )
  )
