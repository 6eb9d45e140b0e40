/**
 * A stretch of the log as deliveries of one handler. Hides how positions and times name it, and that a log is long.
 *
 * Gotchas
 * - A replay that is cut short has made what it has made; made again, its steps find their journal.
 * - Times are looked up in the order of the log, by when its events were detected: what a hold kept back lies where it was
 *   released.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type LogEntry, parsePosition } from "../../domain/ChangeEvent.ts"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import { Deliveries, type NewDelivery } from "../../store/Deliveries.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { deliveriesOf } from "../engine/Dispatcher.ts"
import { toPublishedEvent } from "../engine/EventCache.ts"
import { matchEvent, type Subscription } from "../engine/Subscription.ts"
import { PluginRequestError, type ReplayRequest, type ReplayResult } from "./PluginAdmin.ts"

/** First and last position. */
export interface PositionRange {
  readonly from: number
  readonly to: number
}

/** Rows of the log that are read at once. */
const pageSize = 500

const malformed = (message: string, hint: string) => new PluginRequestError({ reason: "malformed", message, hint })

const instantOf = (text: string): number | null =>
  /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text) && !Number.isNaN(Date.parse(text))
    ? Date.parse(text)
    : null

/** The first position whose event was not detected before `at`; behind the newest if there is none. */
const positionAt = Effect.fnUntraced(function*(at: number, { newest, oldest }: { oldest: number; newest: number }) {
  const store = yield* Store
  let [low, high] = [oldest, newest + 1]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const [entry] = yield* store.readLog({ after: middle - 1, limit: 1 })
    if (entry === undefined || entry.detectedAt >= at) high = middle
    else low = entry.position + 1
  }
  return low
})

/** Which part of the log is meant. */
export const resolveRange = Effect.fnUntraced(function*(
  { from, to }: Pick<ReplayRequest, "from" | "to">
): Effect.fn.Return<PositionRange, PluginRequestError | StoreError, Store> {
  const store = yield* Store
  const kept = yield* store.logRange
  const place = Effect.fnUntraced(function*(text: string) {
    const position = parsePosition(store.identity, text)
    if (position === "foreign") {
      return yield* malformed(
        `${text} is a position of another store, or of a generation that was replaced`,
        "take one that this process gave"
      )
    }
    if (position !== "malformed") {
      const { chains: [chain] } = yield* store.chains([position.position])
      if (position.chain !== null && position.chain !== chain && position.position >= kept.oldest) {
        return yield* malformed(
          `the log holds another event at ${text}: the store was restored from an older copy`,
          "take a position that this process gave, or a time"
        )
      }
      return { position: position.position, exact: true }
    }
    const at = instantOf(text)
    if (at === null) {
      return yield* malformed(`"${text}" is neither a position nor a time`, "write one such as 2026-03-01T12:00:00Z")
    }
    return { position: yield* positionAt(at, kept), exact: false }
  })
  const first = from === undefined ? { position: kept.oldest, exact: false } : yield* place(from)
  if (first.exact && first.position < kept.oldest) {
    return yield* malformed("the log is not kept any more from this position on", "leave `from` away for what is kept")
  }
  const end = to === undefined ? { position: kept.newest, exact: true } : yield* place(to)
  const range = {
    from: Math.max(1, first.position),
    to: Math.min(kept.newest, end.exact ? end.position : end.position - 1)
  }
  if (range.to < range.from) {
    return yield* malformed("there is no event in this stretch of the log", "move `from` or `to`")
  }
  return range
})

/** What the handler would be given. */
export interface MatchedEvent {
  readonly entry: LogEntry
  readonly event: PublishedEvent
}

/** Gives `take` what the handler would be given in these integrations, a portion at a time and in order. */
export const forEachMatch = Effect.fnUntraced(function*<E, R>(
  subscription: Subscription,
  { from, to }: PositionRange,
  integrations: ReadonlyArray<string>,
  take: (found: ReadonlyArray<MatchedEvent>) => Effect.Effect<unknown, E, R>
): Effect.fn.Return<void, E | StoreError, R | Store> {
  const store = yield* Store
  const [only] = integrations
  const integration = integrations.length === 1 ? only : undefined
  for (let after = from - 1; after < to;) {
    const entries = yield* store.readLog({ after, limit: pageSize, integration })
    yield* take(
      entries.filter((entry) => entry.position <= to && integrations.includes(entry.integration))
        .map((entry): MatchedEvent => ({ entry, event: toPublishedEvent(store.identity, entry) }))
        .filter(({ event }) => matchEvent(subscription, event) !== "no")
    )
    if (entries.length < pageSize) return
    after = entries.at(-1)!.position
  }
})

/** Of a handler that runs by the clock: once for the whole stretch. */
const tickOf = ({ key }: Subscription, { from, to }: PositionRange, integration: string, now: number): NewDelivery => ({
  handler: key,
  integration,
  orderingKey: integration,
  subject: { _tag: "Tick", scheduledAt: now, from: from - 1, to },
  dueAt: now,
  dead: null,
  fresh: null
})

/** Makes the deliveries, a portion in each transaction. */
export const replay = Effect.fn("Replay.replay")(function*(
  subscription: Subscription,
  { fresh, integration, ...stretch }: ReplayRequest & { readonly fresh: boolean },
  integrations: ReadonlyArray<string>
): Effect.fn.Return<ReplayResult, PluginRequestError | StoreError, Store | Deliveries> {
  const deliveries = yield* Deliveries
  const range = yield* resolveRange(stretch)
  const at = yield* Clock.currentTimeMillis
  const action = {
    at,
    command: "plugins.replay",
    target: `${stretch.plugin}/${stretch.handler}`,
    detail: `positions ${range.from} to ${range.to}${integration === undefined ? "" : ` of ${integration}`}${
      fresh ? ", fresh" : ""
    }`
  }
  let count = 0
  const made = Effect.fnUntraced(function*(some: ReadonlyArray<NewDelivery>) {
    if (some.length === 0) return
    count += some.length
    yield* deliveries.replay(some.map((one) => ({ ...one, fresh: fresh ? `replay-${at}` : null })), action)
  })
  yield* subscription.handler.activation._tag === "Tick"
    ? made(integrations.map((integration) => tickOf(subscription, range, integration, at)))
    : forEachMatch(
      subscription,
      range,
      integrations,
      (found) => made(found.flatMap(({ entry, event }) => deliveriesOf([subscription], entry, event, at)))
    )
  yield* Effect.annotateLogs(Effect.logInfo("operator acted"), { ...action, deliveries: count })
  return { ...range, deliveries: count }
})
