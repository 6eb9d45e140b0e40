/**
 * Delivers a range of the log again to one handler.
 *
 * Gotchas
 * - If a replay is interrupted, the deliveries created so far remain. When it is repeated, steps find their results in the journal.
 * - A time is that at which events were written to the log. Events that a hold kept back are at the position of their release, so the
 *   times of detection are not in the order of the log.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { parsePosition } from "../../domain/ChangeEvent.ts"
import { rangesOf } from "../../domain/DeliveryProgress.ts"
import { parseInstant } from "../../domain/Watermark.ts"
import { toPublishedEvent } from "../../plugin/EventMatching.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import type { NewDelivery } from "../../store/Delivery.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { deliveriesOf } from "../engine/Dispatcher.ts"
import type { MatchedEvent } from "../handler/PlannedDelivery.ts"
import { matchEvent, type Subscription } from "../handler/Subscription.ts"
import { PluginRequestError, type ReplayRequest, type ReplayResult } from "./PluginAdmin.ts"

/** The first and the last position of a range. */
export interface PositionRange {
  readonly from: number
  readonly to: number
}

/** Rows of the log per query. */
const pageSize = 500

const malformed = (message: string, hint: string) => new PluginRequestError({ reason: "malformed", message, hint })

/** A time, or a day, which begins at midnight UTC. */
const timeOf = (text: string): number | null => parseInstant(text) ?? parseInstant(`${text}T00:00:00Z`)

/** The range of the log that a request selects. */
export const resolveRange = Effect.fnUntraced(function*(
  { from, to }: Pick<ReplayRequest, "from" | "to">
): Effect.fn.Return<PositionRange, PluginRequestError | StoreError, Store> {
  const store = yield* Store
  const kept = yield* store.logRange
  const resolve = Effect.fnUntraced(function*(text: string) {
    const position = parsePosition(store.identity, text)
    if (position === "foreign") {
      return yield* malformed(
        `${text} is a position of another store, or of a generation that was replaced`,
        "use a position that this process has returned"
      )
    }
    if (position !== "malformed") {
      const { chains: [chain] } = yield* store.chains([position.position])
      if (position.chain !== null && position.chain !== chain && position.position >= kept.oldest) {
        return yield* malformed(
          `the log holds another event at ${text}: the store was restored from an older copy`,
          "use a position that this process has returned, or a time"
        )
      }
      return { position: position.position, exact: true }
    }
    const at = timeOf(text)
    if (at === null) {
      return yield* malformed(`"${text}" is neither a position nor a time`, "write a time such as 2026-03-01T12:00:00Z")
    }
    return { position: ((yield* store.positionBefore(at)) ?? kept.oldest - 1) + 1, exact: false }
  })
  const first = from === undefined ? { position: kept.oldest, exact: false } : yield* resolve(from)
  if (first.exact && first.position < kept.oldest) {
    return yield* malformed(
      "the log no longer reaches back to this position",
      "leave out `from` to start with the oldest event that is kept"
    )
  }
  const end = to === undefined ? { position: kept.newest, exact: true } : yield* resolve(to)
  const range = {
    from: Math.max(1, first.position),
    to: Math.min(kept.newest, end.exact ? end.position : end.position - 1)
  }
  if (range.to < range.from) {
    return yield* malformed("there is no event in this range of the log", "change `from` or `to`")
  }
  return range
})

/** Calls `take` with the events that the handler accepts in these integrations, a page at a time and in order. */
export const forEachMatch = Effect.fnUntraced(function*<E, R>(
  subscription: Subscription,
  { from, to }: PositionRange,
  integrations: ReadonlyArray<string>,
  take: (found: ReadonlyArray<MatchedEvent>) => Effect.Effect<unknown, E, R>
): Effect.fn.Return<void, E | StoreError, R | Store> {
  const store = yield* Store
  for (let after = from - 1; after < to;) {
    const entries = yield* store.readLog({ after, limit: pageSize, integrations })
    yield* take(
      entries.filter((entry) => entry.position <= to)
        .map((entry): MatchedEvent => ({ entry, event: toPublishedEvent(store.identity, entry) }))
        .filter(({ event }) => matchEvent(subscription, event) !== "no")
    )
    if (entries.length < pageSize) return
    after = entries.at(-1)!.position
  }
})

/** For a scheduled handler: one tick that spans the whole range. */
const tickOf = ({ key }: Subscription, { from, to }: PositionRange, integration: string, now: number): NewDelivery => ({
  handler: key,
  integration,
  orderingKey: integration,
  subject: { _tag: "Tick", scheduledAt: now, from: from - 1, to },
  dueAt: now,
  dead: null,
  fresh: null
})

/** Creates the deliveries, one transaction per page. */
export const replay = Effect.fn("Replay.replay")(function*(
  subscription: Subscription,
  { fresh, integration, ...request }: ReplayRequest & { readonly fresh: boolean },
  integrations: ReadonlyArray<string>
): Effect.fn.Return<ReplayResult, PluginRequestError | StoreError, Store | Deliveries> {
  const deliveries = yield* Deliveries
  const range = yield* resolveRange(request)
  const at = yield* Clock.currentTimeMillis
  const action = {
    at,
    command: "plugins.replay",
    target: `${request.plugin}/${request.handler}`,
    detail: `positions ${range.from} to ${range.to}${integration === undefined ? "" : ` of ${integration}`}${
      fresh ? ", fresh" : ""
    }`
  }
  const ids: Array<number> = []
  const create = Effect.fnUntraced(function*(some: ReadonlyArray<NewDelivery>) {
    if (some.length === 0) return
    const made = some.map((one) => ({ ...one, fresh: fresh ? `replay-${at}` : null }))
    for (const id of yield* deliveries.replay(made, action)) ids.push(id)
  })
  yield* subscription.handler.activation._tag === "Tick"
    ? create(integrations.map((integration) => tickOf(subscription, range, integration, at)))
    : forEachMatch(
      subscription,
      range,
      integrations,
      (found) => create(found.flatMap(({ entry, event }) => deliveriesOf([subscription], entry, event, at)))
    )
  yield* Effect.annotateLogs(Effect.logInfo("operator acted"), { ...action, deliveries: ids.length })
  return { ...range, deliveries: ids.length, ranges: rangesOf(ids) }
})
