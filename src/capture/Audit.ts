/**
 * Compares what a stream's events add up to with a fresh full reading of it, and says where they differ. Publishes nothing.
 *
 * Invariants
 * 1. What is told as a difference was shown by the API, is not pending, and was not published by the end of the audit
 *
 * Gotchas
 * - Compared is the content of each record's newest event as it is stored, hashed anew: a damaged log shows too.
 * - Records are marked as met by the audit's own number, so that what it did not meet is found without remembering ids (I9).
 * - A change that only a sweep can find (a nested one that is not announced) is a difference until the next sweep.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { canonicalHash } from "../domain/Canonical.ts"
import { diff } from "../domain/Diff.ts"
import { streamName } from "../domain/Model.ts"
import { type Observation, observe, readRow, type Row } from "../domain/Observation.ts"
import type { Page, Source } from "../source/Source.ts"
import type { Head, PendingStatus, Reading } from "../store/State.ts"
import { Store, type StreamTx } from "../store/Store.ts"
import { emptyBalance } from "./Absorb.ts"
import { counted, newReading, type ReadingError, readPages, type Stream } from "./Pages.ts"
import { mostAsked } from "./PointRead.ts"
import { parseContent } from "./Publication.ts"

export interface Difference {
  readonly id: string
  /**
   * `unknown`: the API shows a live record that was never published. `gone`: published as live, and the API does not show
   * it, or shows it as deleted. `deleted`: published as deleted, and the API shows it alive. `content`: they differ.
   */
  readonly what: "unknown" | "gone" | "deleted" | "content"
  /** Of `content`: where, as JSON Pointers; never the values   (I11) */
  readonly paths: ReadonlyArray<string>
}

export interface AuditReport {
  /** Rows of the reading, tombstones included. */
  readonly read: number
  /** Records that are observed and not yet published, by status. */
  readonly pending: Readonly<Partial<Record<PendingStatus, number>>>
  readonly quarantined: number
  readonly differing: number
  /** The first thousand of them. */
  readonly differences: ReadonlyArray<Difference>
}

/** Differences that are looked at again and told; beyond them they are only counted. */
const kept = 1_000

interface Suspect extends Difference {
  /** Log position of what was published when it was compared. */
  readonly position: number | null
}

const suspectOf = (
  { processing }: Stream,
  observed: Observation,
  head: Head | undefined,
  content: string | null | undefined
): ReadonlyArray<Suspect> => {
  const suspect = (what: Difference["what"], paths: ReadonlyArray<string> = []) => [
    { id: observed.id, what, paths, position: head?.position ?? null }
  ]
  const live = !observed.deleted && !observed.blank
  if (head?.live !== true) return live ? suspect(head === undefined ? "unknown" : "deleted") : []
  if (!live) return suspect("gone")
  const published = processing.apply(parseContent(content) ?? {})
  return canonicalHash(processing.shape, published) === observed.canonicalHash
    ? []
    : suspect("content", diff(processing.shape, published, observed.content).map(({ path }) => path))
}

/** Compares one page and marks its records as met. */
const compare = Effect.fnUntraced(function*(
  stream: Stream,
  tx: StreamTx,
  results: ReadonlyArray<unknown>,
  audit: number
) {
  const rows = new Map<string, Row>()
  for (const value of results) {
    const row = readRow(stream.processing, value)
    if ("id" in row) rows.set(row.id, row)
  }
  const ids = [...rows.keys()]
  const heads = yield* tx.heads(ids)
  const pending = yield* tx.pending(ids)
  const positions = [...heads.values()].flatMap(({ live, position }) => live && position !== null ? [position] : [])
  const contents = yield* tx.contents(positions)
  yield* tx.seen(ids.filter((id) => heads.has(id)), audit)
  return [...rows].filter(([id]) => !pending.has(id)).flatMap(([id, row]) => {
    const head = heads.get(id)
    return suspectOf(stream, observe(stream.processing, row), head, contents.get(head?.position ?? 0))
  })
})

/** What is published as live and was not met, a page of it. */
const unmet = Effect.fnUntraced(function*(stream: Stream, audit: number, after: string | null) {
  const store = yield* Store
  const ids = yield* store.unseen(stream.key, audit, after, mostAsked)
  const suspects = yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*(tx) {
      const heads = yield* tx.heads(ids)
      const pending = yield* tx.pending(ids)
      return ids.filter((id) => !pending.has(id)).map((id): Suspect => ({
        id,
        what: "gone",
        paths: [],
        position: heads.get(id)?.position ?? null
      }))
    })
  )
  return { suspects, last: ids.length < mostAsked ? null : ids.at(-1)! }
})

/** Those of which nothing was published or observed since they were compared. */
const remaining = Effect.fnUntraced(function*(tx: StreamTx, suspects: ReadonlyArray<Suspect>) {
  const ids = suspects.map(({ id }) => id)
  const heads = yield* tx.heads(ids)
  const pending = yield* tx.pending(ids)
  return suspects.filter(({ id, position }) => !pending.has(id) && (heads.get(id)?.position ?? null) === position)
})

/** Polls, reads everything, compares, and polls again: what changed meanwhile is no difference. */
export const audit = Effect.fn("Audit.run")(function*(
  stream: Stream,
  catchUp: Effect.Effect<void, ReadingError, Store | Source>
): Effect.fn.Return<AuditReport, ReadingError, Store | Source> {
  const store = yield* Store
  yield* catchUp
  const startedAt = yield* Clock.currentTimeMillis
  const start = yield* store.transact(
    stream.owner,
    stream.key,
    (tx) => {
      const reading = newReading(tx.state, "sweep", { from: null, startedAt, backfill: false })
      return Effect.as(tx.save({ ...tx.state, reading: reading.id }), reading)
    }
  )
  const suspects: Array<Suspect> = []
  let differing = 0
  const note = (found: ReadonlyArray<Suspect>) => {
    differing += found.length
    suspects.push(...found.slice(0, Math.max(0, kept - suspects.length)))
  }
  const { reading } = yield* readPages(stream, start, {
    priority: "sweep",
    yieldTurn: Effect.succeed(false),
    commit: Effect.fnUntraced(function*(reading: Reading, page: Page) {
      note(yield* store.transact(stream.owner, stream.key, (tx) => compare(stream, tx, page.results, start.id)))
      return counted(reading, { balance: { ...emptyBalance, read: page.results.length }, unheard: 0 })
    })
  })
  for (let after: string | null = null;;) {
    const page: Effect.Success<ReturnType<typeof unmet>> = yield* unmet(stream, start.id, after)
    note(page.suspects)
    if (page.last === null) break
    after = page.last
  }
  yield* catchUp
  const left = yield* store.transact(stream.owner, stream.key, (tx) => remaining(tx, suspects))
  const counts = (yield* store.counts).find((row) => streamName(row) === streamName(stream.key))
  return {
    read: reading.balance.read,
    pending: counts?.pending ?? {},
    quarantined: counts?.quarantined ?? 0,
    differing: differing - suspects.length + left.length,
    differences: left.map(({ id, paths, what }) => ({ id, what, paths }))
  }
})
