/**
 * The handlers for consumers: the event log as pages and as a stream of server-sent events, and the current records of a stream.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { cloudEventTextOf, formatPosition, type LogEntry } from "../../domain/ChangeEvent.ts"
import type { StreamKey } from "../../domain/Model.ts"
import type { LogFilter } from "../../store/EventLog.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, PositionMalformed } from "../contract/Problem.ts"
import { PageBudget } from "../limits/PageBudget.ts"
import { eventResponse, wantsEvents } from "../request/ServerSentEvents.ts"
import * as LogReader from "./LogReader.ts"
import * as ResponsePage from "./ResponsePage.ts"

/** Time without an event until a reader gets a comment (ns). Proxies close a connection without traffic after 30 to 60 seconds. */
const heartbeat = 15_000_000_000n
/**
 * Time between two reads of a reader that has read the whole log (ns). A read takes 0.3 ms of CPU time, even if nothing matches, so that
 * 128 readers of a busy log take at most a sixth of a core.
 */
const readInterval = 250_000_000n
const defaultLimit = 100
/**
 * Maximum size of the events that are in memory for each reader of a stream until the reader has received them. A larger event is sent
 * alone.
 */
const maxChunkBytes = 512 * 1024

// ---- GET /v1/events -----------------------------------------------------------------------------------------------

const eventPage = Effect.fnUntraced(function*(after: LogReader.ResumePoint, limit: number, filter: LogFilter) {
  const { identity } = yield* Store
  const { next, texts } = yield* LogReader.readPage(after, limit, filter, (entry) => cloudEventTextOf(identity, entry))
  const hint = texts.length === 0 ? yield* LogReader.explainEmptyFilter(filter) : null
  const hinted = hint === null ? "" : `,"hint":${JSON.stringify(hint)}`
  return json('{"events":[', texts, `],"next":"${formatPosition(identity, next.position, next.chain)}"${hinted}}`)
})

interface Reader {
  readonly after: LogReader.ResumePoint
  /** When the reader may read again, monotonic ns. */
  readonly notBefore: bigint
  /** When the reader gets a comment if it gets no event before, monotonic ns. */
  readonly silentUntil: bigint
}

/**
 * An endless stream of server-sent events after a position. Further rows are read only after the reader has received the previous
 * ones, so a slow reader delays only itself. The stream ends if the log is pruned beyond the reader's position (I1).
 */
const eventStream = Effect.fnUntraced(function*(start: LogReader.ResumePoint, limit: number, filter: LogFilter) {
  const store = yield* Store
  const idOf = ({ chain, position }: LogReader.ResumePoint) => formatPosition(store.identity, position, chain)
  const sse = (entry: LogEntry) =>
    `id: ${idOf(entry)}\nevent: ${entry.kind}\ndata: ${cloudEventTextOf(store.identity, entry)}\n\n`
  const step = Effect.fnUntraced(function*({ after, notBefore, silentUntil }: Reader) {
    const wait = notBefore - (yield* Clock.monotonicTimeNanos)
    if (wait > 0n) yield* Effect.sleep(Duration.nanos(wait))
    const readAt = yield* Clock.monotonicTimeNanos
    const { atEnd, next, texts } = yield* LogReader.readPage(after, limit, filter, sse, maxChunkBytes)
    const reader = { after: next, notBefore: atEnd ? readAt + readInterval : 0n, silentUntil: readAt + heartbeat }
    if (texts.length > 0) return [Buffer.concat(texts), reader] as const
    if (!atEnd) return [Buffer.from(`: no event matches so far\nid: ${idOf(next)}\n\n`), reader] as const
    const silence = silentUntil - readAt
    // This happens even while other events arrive all the time: without the id, the position of a reader with a filter would expire.
    const news = silence > 0n && Option.isSome(
      yield* Effect.timeoutOption(store.awaitLog(next.position), Duration.nanos(silence))
    )
    return news
      ? [Buffer.alloc(0), { ...reader, silentUntil }] as const
      : [Buffer.from(`: no new event\nid: ${idOf(next)}\n\n`), {
        ...reader,
        silentUntil: (yield* Clock.monotonicTimeNanos) + heartbeat
      }] as const
  })
  const hint = yield* LogReader.explainEmptyFilter(filter)
  const first = { after: start, notBefore: 0n, silentUntil: (yield* Clock.monotonicTimeNanos) + heartbeat }
  const body = Stream.unfold(first, step).pipe(
    Stream.filter((text) => text.length > 0),
    // with the id, so that a reader from `latest` whose connection ends before the first event resumes here   (R4)
    Stream.prepend([Buffer.from(`: connected${hint === null ? "" : `; ${hint}`}\nid: ${idOf(start)}\n\n`)]),
    Stream.provideService(Store, store)
  )
  return eventResponse(body)
})

// ---- GET /v1/records ----------------------------------------------------------------------------------------------

/** The page token of a reader of records: the position of its first page and the last record that it received. */
const formatPageToken = (position: string, id: string): string => `${position}~${Buffer.from(id).toString("base64url")}`

const parsePageToken = (text: string): { readonly position: string; readonly id: string } => {
  const [position = "", id = ""] = text.split("~")
  return { position, id: Buffer.from(id, "base64url").toString() }
}

type CurrentRow = Effect.Success<ReturnType<Store["Service"]["records"]>>["records"][number]

/** `id`: only this record, on one page. */
const recordPage = Effect.fnUntraced(function*(
  key: StreamKey,
  { after, id, limit }: { readonly after: string | undefined; readonly id: string | undefined; readonly limit: number }
) {
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
      : LogReader.resolve({ after: token.position })
  }
  let first = token?.position ?? ""
  const { full, rows, texts } = yield* ResponsePage.fill(
    limit,
    (last, count) =>
      Effect.map(store.records(key, last?.id ?? token?.id ?? null, count, id), ({ chain, position, records }) => {
        first ||= formatPosition(store.identity, position, chain)
        return records
      }),
    ({ content, id, generation, version }: CurrentRow) =>
      `${JSON.stringify({ ...key, id, generation, version }).slice(0, -1)},"after":${content}}`
  )
  const next = full && id === undefined ? formatPageToken(first, rows.at(-1)!.id) : null
  return json('{"records":[', texts, `],"position":"${first}","next":${JSON.stringify(next)}}`)
})

const comma = Buffer.from(",")

/** `items`: the elements of the list between the two texts. */
const json = (before: string, items: ReadonlyArray<Buffer>, after: string) => {
  const separated = items.flatMap((item, index) => index === 0 ? [item] : [comma, item])
  const body = Buffer.concat([Buffer.from(before), ...separated, Buffer.from(after)])
  return HttpServerResponse.uint8Array(body, { contentType: "application/json" })
}

const held = <E, R>(page: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.flatMap(PageBudget, ({ hold }) => hold(page))

// ---- handlers -----------------------------------------------------------------------------------------------------

export const layer = HttpApiBuilder.group(Api, "feed", (handlers) =>
  handlers
    .handle(
      "events",
      ({ headers, query: { after, integration, kind, limit = defaultLimit, model, since, transition } }) => {
        const filter: LogFilter = { integrations: integration, models: model, kinds: kind, transitions: transition }
        const streams = wantsEvents(headers.accept)
        const seen = streams ? headers["last-event-id"] : undefined
        return LogReader.resolve(seen === undefined ? { after, since } : { after: seen }).pipe(
          Effect.flatMap((from) => streams ? eventStream(from, limit, filter) : held(eventPage(from, limit, filter)))
        )
      }
    )
    .handle("records", ({ query: { after, id, limit = defaultLimit, ...key } }) =>
      held(recordPage(key, { after, id, limit }))))
