/**
 * Reads the event log for readers that resume from a position.
 *
 * Invariants
 * 1. A reader that resumes from `next` misses no event that its filter selects   (I1, I5, R4)
 * 2. If a position cannot be resumed without a gap, the result is `PositionGone`, and never a list of other events. This includes a
 *    log that was restored from an older copy and has since grown beyond the position with other events   (X14, X18)
 * 3. A page ends after a bounded part of the log, even if nothing matches
 *
 * Gotchas
 * - The newest position is read *before* the rows. A filtered page that is not full then proves that no event up to that
 *   position is missing, so `next` advances although no event matched.
 */
import * as Effect from "effect/Effect"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { genesis, type LogEntry, type LogPlace, parsePosition } from "../../domain/ChangeEvent.ts"
import type { LogFilter } from "../../store/EventLog.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { PositionGone, PositionMalformed } from "../contract/Problem.ts"
import * as ResponsePage from "./ResponsePage.ts"

/** The position from which a reader resumes; its chain is checked against this log. */
export type ResumePoint = Pick<LogEntry, "position" | "chain">

/** Where a reader starts. If neither is given, it starts at the oldest event that is kept. */
export interface Start {
  /** A position, or `latest`. */
  readonly after?: string | undefined
  /** Our clock, in ms. */
  readonly since?: number | undefined
}

/**
 * Maximum number of rows of the log that one page reads if the filter names kinds or transitions, which are in no index. 10,000 rows of 2
 * KB take about 13 ms on SQLite and 8 ms on PostgreSQL.
 */
const scannedRows = 10_000

const startOverHint = "read the current state from GET /v1/records and continue from its position, or omit `after`"

const gone = (detail: string, hint = startOverHint) => new PositionGone({ detail, hint })

/** Returns the chain at the position. Fails if the log cannot be resumed from there. */
const requireContinuable = Effect.fnUntraced(function*({ chain, position }: LogPlace) {
  const { chains: [found = null], newest, oldest } = yield* (yield* Store).chains([position])
  if (position > newest) {
    return yield* gone("the event log ends before this position: the store was restored from an older copy")
  }
  if (position < oldest - 1) return yield* gone("the events after this position are no longer retained")
  if (chain !== null && chain !== found) {
    return yield* gone("the event log has other events up to this position: the store was restored from an older copy")
  }
  return found ?? genesis
})

const withChain = (position: number) =>
  Effect.map(requireContinuable({ position, chain: null }), (chain): ResumePoint => ({ position, chain }))

const resolveTime = Effect.fnUntraced(function*(since: number) {
  const position = yield* (yield* Store).positionBefore(since)
  if (position === null) {
    return yield* gone(
      "events that were recorded after this time are no longer retained",
      "read the current state from GET /v1/records and continue from its position, or omit `since` to read all events that are kept"
    )
  }
  return yield* withChain(position)
})

export const resolve = Effect.fnUntraced(function*({ after, since }: Start) {
  const store = yield* Store
  if (after !== undefined && since !== undefined) {
    return yield* new PositionMalformed({
      detail: "`after` and `since` both set the start: pass only one of them"
    })
  }
  if (since !== undefined) return yield* resolveTime(since)
  if (after === undefined || after === "latest") {
    const { chain, newest, oldest } = yield* store.chains([])
    return after === "latest" ? { position: newest, chain } : yield* withChain(Math.max(oldest - 1, 0))
  }
  const place = parsePosition(store.identity, after)
  if (place === "malformed") {
    return yield* new PositionMalformed({ detail: "pass a position exactly as Rollcall returned it, or `latest`" })
  }
  if (place === "foreign") {
    return yield* gone("the position belongs to another store, or to a generation that was replaced")
  }
  return { position: place.position, chain: yield* requireContinuable(place) }
})

interface LogPage {
  readonly texts: ReadonlyArray<Buffer>
  readonly next: ResumePoint
  /** Whether the page ends at the newest event. */
  readonly atEnd: boolean
}

/** Reads a page of the log. If another copy of the store replaced the store between two queries, the whole page is read once more. */
export const readPage = (
  after: ResumePoint,
  limit: number,
  filter: LogFilter,
  textOf: (entry: LogEntry) => string,
  maxBytes?: number,
  isRetry = false
): Effect.Effect<LogPage, StoreError | PositionGone, Store> =>
  Effect.gen(function*() {
    const store = yield* Store
    const newest = yield* store.chains([])
    const isScan = (filter.kinds ?? filter.transitions) !== undefined
    const upTo = isScan ? Math.min(after.position + scannedRows, newest.newest) : undefined
    const ends: Array<ResumePoint> = []
    const { full, rows, texts } = yield* ResponsePage.fill(
      limit,
      (last, limit) =>
        Effect.tap(
          store.readLog({ ...filter, after: last?.position ?? after.position, upTo, limit }),
          (some) => Effect.sync(() => ends.push(...some.slice(-1)))
        ),
      textOf,
      maxBytes
    )
    // This is checked after the rows are read, because rows that were pruned in the meantime would be missing from the page.
    yield* requireContinuable(after)
    const scanned = upTo ?? newest.newest
    const { chains: [atNewest, atScanned, ...atEnds] } = yield* store.chains([
      newest.newest,
      scanned,
      ...ends.map(({ position }) => position)
    ])
    const isReplaced = atNewest !== newest.chain || ends.some(({ chain }, index) => chain !== atEnds[index])
    if (isReplaced && !isRetry) return yield* readPage(after, limit, filter, textOf, maxBytes, true)
    const { chain, position } = rows.at(-1) ?? after
    const next: ResumePoint = full || isReplaced || position >= scanned
      ? { position, chain }
      : { position: scanned, chain: atScanned ?? newest.chain }
    return { texts, next, atEnd: next.position >= newest.newest }
  })

/**
 * Why no event matches a filter, as text; null if events may match it. This is not an error: a reader that starts before an
 * integration is added gets its first event.
 */
export const explainEmptyFilter = Effect.fnUntraced(function*({ integrations, models, transitions }: LogFilter) {
  const { entryOf, names } = yield* CurrentModels
  const modelsWith = transitions === undefined ?
    names :
    names.filter((model) => entryOf(model)?.transitions.some(({ name }) => transitions.includes(name)) === true)
  if (models !== undefined && !modelsWith.some((model) => models.includes(model))) {
    return `no event of ${models.join(",")} has the transition ${transitions?.join(",")}: ${modelsWith.join(", ")} has`
  }

  const store = yield* Store
  const matchesStream = (yield* store.streams).some((key) =>
    (integrations?.includes(key.integration) ?? true) && (models?.includes(key.model) ?? true)
  )
  if (matchesStream || (integrations ?? models) === undefined) return null
  const filter = JSON.stringify([integrations, models].flatMap((names) => names?.join(",") ?? []).join("/"))
  return `no stream matches ${filter}: GET /v1/streams lists the streams; an event appears once such a stream is added`
})
