/**
 * The handlers for consumers: the event log as pages and as a stream of server-sent events, and the current records of a stream.
 *
 * Invariants
 * 1. A reader that resumes from `next`, `id` or `position` misses no event, for any filter   (I1, I5, R4)
 * 2. If a position cannot be resumed without a gap, the response is 410 and never a list of other events. This includes a log
 *    that was restored from an older copy and has since grown beyond the position with other events   (X14, X18)
 *
 * Gotchas
 * - The newest position is read *before* the rows. A filtered page that is not full then proves that no event up to that
 *   position is missing, so `next` advances although no event matched.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import {
  cloudEventTextOf,
  formatPosition,
  genesis,
  type LogEntry,
  type LogPlace,
  parsePosition
} from "../../domain/ChangeEvent.ts"
import type { StreamKey } from "../../domain/Model.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { Api } from "../Api.ts"
import { NotFound, PositionGone, PositionMalformed } from "../Problem.ts"
import { toStoreUnavailable } from "../StoreUnavailable.ts"
import * as ResponsePage from "./ResponsePage.ts"

/** Proxies close a connection without traffic after 30 to 60 seconds. */
const heartbeat = "15 seconds"
const defaultLimit = 100
/** Text of events that is kept in memory for each reader of a stream until it has received it; a larger event is sent alone. */
const maxChunkBytes = 512 * 1024

interface Filter {
  readonly integration?: string | undefined
  readonly model?: string | undefined
}

const startOverHint = "read the current state from GET /v1/records and continue from its position, or omit `after`"

/** Returns the chain at the position. Fails if the log cannot be resumed from there. */
const requireContinuable = Effect.fnUntraced(function*({ chain, position }: LogPlace) {
  const { chains: [found = null], newest, oldest } = yield* (yield* Store).chains([position])
  const gone = (detail: string) => new PositionGone({ detail, hint: startOverHint })
  if (position > newest) {
    return yield* gone("the event log ends before this position: the store was restored from an older copy")
  }
  if (position < oldest - 1) return yield* gone("the events after this position are no longer retained")
  if (chain !== null && chain !== found) {
    return yield* gone("the event log has other events up to this position: the store was restored from an older copy")
  }
  return found ?? genesis
})

/** The position from which a reader resumes; its chain is checked against this log. */
type ResumePoint = Pick<LogEntry, "position" | "chain">

/** Resolves the `after` of a request. */
const resolveResumePoint = Effect.fnUntraced(function*(after: string | undefined) {
  const store = yield* Store
  if (after === undefined || after === "latest") {
    const { chain, newest, oldest } = yield* store.chains([])
    if (after === "latest") return { position: newest, chain }
    const position = Math.max(oldest - 1, 0)
    return { position, chain: yield* requireContinuable({ position, chain: null }) }
  }
  const place = parsePosition(store.identity, after)
  if (place === "malformed") {
    return yield* new PositionMalformed({ detail: "pass a position exactly as Rollcall returned it, or `latest`" })
  }
  if (place === "foreign") {
    return yield* new PositionGone({
      detail: "the position belongs to another store, or to a generation that was replaced",
      hint: startOverHint
    })
  }
  return { position: place.position, chain: yield* requireContinuable(place) }
})

interface LogPage {
  readonly texts: ReadonlyArray<string>
  readonly next: ResumePoint
}

/** Reads a page of the log. If another copy of the store replaced it between two queries, the whole page is read once more. */
const readLog = (
  after: ResumePoint,
  limit: number,
  filter: Filter,
  textOf: (entry: LogEntry) => string,
  maxBytes?: number,
  isRetry = false
): Effect.Effect<LogPage, StoreError | PositionGone, Store> =>
  Effect.gen(function*() {
    const store = yield* Store
    const newest = yield* store.chains([])
    const ends: Array<ResumePoint> = []
    const { full, rows, texts } = yield* ResponsePage.fill(
      limit,
      (last, limit) =>
        Effect.tap(store.readLog({ after: last?.position ?? after.position, limit, ...filter }), (some) =>
          Effect.sync(() => ends.push(...some.slice(-1)))),
      textOf,
      maxBytes
    )
    // checked after the rows are read: rows that were pruned meanwhile would be missing from the page
    yield* requireContinuable(after)
    const { chains } = yield* store.chains(ends.map(({ position }) =>
      position
    ))
    if (!isRetry && ends.some(({ chain }, index) => chain !== chains[index])) {
      return yield* readLog(after, limit, filter, textOf, maxBytes, true)
    }
    const { chain, position } = rows.at(-1) ?? after
    const next: ResumePoint = full || position >= newest.newest
      ? { position, chain }
      : { position: newest.newest, chain: newest.chain }
    return { texts, next }
  })

/**
 * Why no event matches a filter, as text; null if a stream matches it. This is not an error: a reader that starts before an
 * integration is added gets its first event.
 */
const explainEmptyFilter = Effect.fnUntraced(function*({ integration, model }: Filter) {
  const store = yield* Store
  const matchesStream = (yield* store.streams).some((key) =>
    (integration ?? key.integration) === key.integration && (model ?? key.model) === key.model
  )
  if (matchesStream || (integration ?? model) === undefined) return null
  const filter = JSON.stringify([integration, model].filter((name) => name !== undefined).join("/"))
  return `no stream matches ${filter}: GET /v1/streams lists the streams; an event appears once such a stream is added`
})

// ---- GET /v1/events -----------------------------------------------------------------------------------------------

const eventPage = Effect.fnUntraced(function*(after: ResumePoint, limit: number, filter: Filter) {
  const { identity } = yield* Store
  const { next, texts } = yield* readLog(after, limit, filter, (entry) => cloudEventTextOf(identity, entry))
  const hint = texts.length === 0 ? yield* explainEmptyFilter(filter) : null
  const hinted = hint === null ? "" : `,"hint":${JSON.stringify(hint)}`
  return json(
    `{"events":[${texts.join(",")}],"next":"${formatPosition(identity, next.position, next.chain)}"${hinted}}`
  )
})

/**
 * An endless stream of server-sent events after a position. The next rows are read when the reader has received the ones
 * before. So a slow reader delays only itself, and its stream ends if the log is pruned beyond its position (I1).
 */
const eventStream = Effect.fnUntraced(function*(after: ResumePoint, limit: number, filter: Filter) {
  const store = yield* Store
  const idOf = ({ chain, position }: ResumePoint) => formatPosition(store.identity, position, chain)
  const sse = (entry: LogEntry) => `id: ${idOf(entry)}\ndata: ${cloudEventTextOf(store.identity, entry)}\n\n`
  const step = (after: ResumePoint): Effect.Effect<readonly [string, ResumePoint], StoreError | PositionGone, Store> =>
    Effect.flatMap(readLog(after, limit, filter, sse, maxChunkBytes), ({ next, texts }) => {
      if (texts.length > 0) return Effect.succeed([texts.join(""), next])
      return store.awaitLog(next.position).pipe(
        Effect.timeoutOption(heartbeat),
        // The id advances a reader with a filter although no event matched; otherwise its position would expire.
        Effect.map((news) => [
          Option.isSome(news) ? "" : `: no new event\nid: ${idOf(next)}\n\n`,
          next
        ])
      )
    })
  const hint = yield* explainEmptyFilter(filter)
  const body = Stream.unfold(after, step).pipe(
    Stream.filter((text) => text !== ""),
    Stream.prepend([hint === null ? ": connected\n\n" : `: connected; ${hint}\n\n`]),
    Stream.encodeText,
    Stream.provideService(Store, store)
  )
  return HttpServerResponse.stream(body, {
    contentType: "text/event-stream; charset=utf-8",
    headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
  })
})

// ---- GET /v1/records ----------------------------------------------------------------------------------------------

/** The page token of a reader of records: the position of its first page and the last record that it received. */
const formatPageToken = (position: string, id: string): string => `${position}~${Buffer.from(id).toString("base64url")}`

const parsePageToken = (text: string): { readonly position: string; readonly id: string } => {
  const [position = "", id = ""] = text.split("~")
  return { position, id: Buffer.from(id, "base64url").toString() }
}

type CurrentRow = Effect.Success<ReturnType<Store["Service"]["records"]>>["records"][number]

const recordPage = Effect.fnUntraced(function*(key: StreamKey, after: string | undefined, limit: number) {
  const store = yield* Store
  if ((yield* store.stream(key)) === null) {
    return yield* new NotFound({
      detail: "this stream does not exist: `rollcall streams list` or GET /v1/streams lists the streams"
    })
  }
  const token = after === undefined ? null : parsePageToken(after)
  if (token !== null) {
    yield* token.id === ""
      ? new PositionMalformed({ detail: "pass `next` exactly as it was returned" })
      : resolveResumePoint(token.position)
  }
  let first = token?.position ?? ""
  const { full, rows, texts } = yield* ResponsePage.fill(
    limit,
    (last, count) =>
      Effect.map(store.records(key, last?.id ?? token?.id ?? null, count), ({ chain, position, records }) => {
        first ||= formatPosition(store.identity, position, chain)
        return records
      }),
    ({ content, id, generation, version }: CurrentRow) =>
      `${JSON.stringify({ ...key, id, generation, version }).slice(0, -1)},"after":${content}}`
  )
  const next = full ? formatPageToken(first, rows.at(-1)!.id) : null
  return json(`{"records":[${texts.join(",")}],"position":"${first}","next":${JSON.stringify(next)}}`)
})

const json = (text: string) => HttpServerResponse.text(text, { contentType: "application/json" })

// ---- handlers -----------------------------------------------------------------------------------------------------

export const layer = HttpApiBuilder.group(Api, "feed", (handlers) =>
  handlers
    .handle("events", ({ headers, query: { after, limit = defaultLimit, ...filter } }) => {
      const streams = headers.accept?.includes("text/event-stream") === true
      return resolveResumePoint(streams ? headers["last-event-id"] ?? after : after).pipe(
        Effect.flatMap((from) => streams ? eventStream(from, limit, filter) : eventPage(from, limit, filter)),
        Effect.catchTag("StoreError", toStoreUnavailable)
      )
    })
    .handle("records", ({ query: { after, limit = defaultLimit, ...key } }) =>
      Effect.catchTag(recordPage(key, after, limit), "StoreError", toStoreUnavailable)))
