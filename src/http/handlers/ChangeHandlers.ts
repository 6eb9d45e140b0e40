/**
 * Handlers for people who look for a change.
 *
 * Invariants
 * 1. Content is sent only after the audit log has an entry for it. If the store cannot save the entry, the response is 503
 * 2. A response without such an entry contains names, paths and ids, but no value   (I11)
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import {
  formatPosition,
  type LogEntry,
  type LogIdentity,
  parsePosition,
  partitionKey
} from "../../domain/ChangeEvent.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { DeliveryTrace } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { type LogSearch, relayReader } from "../../store/EventLog.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import type { ChangePath, ChangeSearch, ChangeView } from "../contract/ChangeApi.ts"
import { NotFound } from "../contract/Problem.ts"
import { formatTimeOrNull } from "../contract/Schemas.ts"

const defaultLimit = 50
/** Maximum number of positions that one search reads. */
const searchedPositions = 20_000
const mostPaths = 200

interface Change {
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}
interface Transition {
  readonly name: string
  readonly from: unknown
  readonly to: unknown
}

const changesOf = ({ changes }: LogEntry): ReadonlyArray<Change> => JSON.parse(changes)
const transitionsOf = ({ transitions }: LogEntry): ReadonlyArray<Transition> => JSON.parse(transitions)

const causeOf = ({ cause }: LogEntry): ChangeView["cause"] => {
  const found: { plugin: string; delivery: string } | null = cause === null ? null : JSON.parse(cause)
  return found === null ? null : { plugin: found.plugin, delivery: Number(found.delivery) }
}

const viewOf = (identity: LogIdentity) => (entry: LogEntry): ChangeView => ({
  position: formatPosition(identity, entry.position),
  integration: entry.integration,
  model: entry.model,
  record: entry.id,
  remote_id: entry.remoteId,
  version: entry.version,
  generation: entry.generation,
  kind: entry.kind,
  origin: entry.origin,
  reason: entry.reason,
  transitions: transitionsOf(entry).map(({ name }) => name),
  paths: changesOf(entry).slice(0, mostPaths).map(({ path }) => path),
  changed_at: entry.changedAt,
  detected_at: formatTime(entry.detectedAt),
  cause: causeOf(entry)
})

const notFound = new NotFound({
  detail:
    "there is no event at this position: it is no longer kept, belongs to another store, or is not a position that Rollcall returned"
})

const positionOf = Effect.fnUntraced(function*(text: string) {
  const place = parsePosition((yield* Store).identity, text)
  return place === "foreign" || place === "malformed" ? yield* notFound : place.position
})

const find = Effect.fnUntraced(function*(text: string) {
  const position = yield* positionOf(text)
  const [entry] = yield* (yield* Store).readLog({ after: position - 1, upTo: position, limit: 1 })
  return entry ?? (yield* notFound)
})

const deliveryOf = Effect.fnUntraced(function*(entry: LogEntry, trace: DeliveryTrace) {
  const { echoesOf, identity } = yield* Store
  const wrote = trace.steps.some(({ write }) => write !== null)
  const echoes = wrote
    ? yield* echoesOf({ delivery: trace.id, after: entry.position, positions: searchedPositions })
    : []
  return {
    plugin: trace.plugin,
    handler: trace.handler,
    delivery: trace.id,
    state: trace.state,
    attempts: trace.attempts,
    due_at: formatTimeOrNull(trace.dueAt),
    failed_attempts: trace.failedAttempts.map(({ failure, number }) => ({
      number,
      failed_at: formatTime(failure.at),
      reason: failure.reason,
      refusal: failure.refusal,
      message: failure.message
    })),
    steps: trace.steps.map(({ begunAt, ...step }) => ({ ...step, begun_at: formatTime(begunAt) })),
    echoes: echoes.map(viewOf(identity))
  }
})

const pathOf = Effect.fnUntraced(function*(text: string, publishes: boolean) {
  const { identity, placeOf, readerPosition } = yield* Store
  const { eventOf, traces } = yield* Deliveries
  const entry = yield* find(text)
  const change = viewOf(identity)(entry)
  const published = publishes ? yield* readerPosition(relayReader) : 0
  const place = publishes && entry.position <= published ? yield* placeOf(entry.position) : null
  const origin = change.cause === null ? null : yield* eventOf(change.cause.delivery)
  const path: ChangePath = {
    change,
    event_id: entry.eventId,
    caused_by: origin === null ? null : formatPosition(identity, origin),
    kafka: publishes
      ? {
        published: entry.position <= published,
        waiting: Math.max(0, entry.position - published - 1),
        key: partitionKey(entry),
        place: place === null ? null : {
          topic: place.topic,
          partition: place.partition,
          offset: place.offset,
          published_at: formatTime(place.at)
        }
      }
      : null,
    deliveries: yield* Effect.forEach(yield* traces(entry.position), (trace) => deliveryOf(entry, trace))
  }
  return path
})

const reveal = Effect.fnUntraced(function*(text: string) {
  const { identity, recordAction } = yield* Store
  const entry = yield* find(text)
  // no id of the record: a forgotten person must not remain in the audit log
  yield* recordAction({
    at: yield* Clock.currentTimeMillis,
    command: "events.reveal",
    target: `${entry.integration}/${entry.model}`,
    detail: `position ${formatPosition(identity, entry.position)}`
  })
  const parsed = (json: string | null): unknown => json === null ? null : JSON.parse(json)
  return {
    model: entry.model,
    before: parsed(entry.before),
    after: parsed(entry.after),
    changes: changesOf(entry).map(({ after = null, before = null, path }) => ({ path, before, after })),
    transitions: transitionsOf(entry)
  }
})

const one = <A>(value: A | undefined): ReadonlyArray<A> | undefined => value === undefined ? undefined : [value]

/** Only the events that the approval of a hold has published. */
const ofHold = Effect.fnUntraced(function*(id: number) {
  const hold = yield* (yield* Store).hold(id)
  if (hold === null) return yield* new NotFound({ detail: `hold ${id} does not exist: GET /v1/holds lists the holds` })
  const { integration, model, published } = hold
  // no position is before the first one
  const { first, last } = published ?? { first: 1, last: 0 }
  return { integrations: [integration], models: [model], from: first, before: last + 1 } satisfies Partial<LogSearch>
})

const search = Effect.fnUntraced(function*(
  { before, hold, id, integration, kind, limit = defaultLimit, model, remote_id: remoteId, transition }: ChangeSearch
) {
  const { identity, searchLog } = yield* Store
  const selected = {
    id,
    remoteId,
    integrations: one(integration),
    models: one(model),
    kinds: one(kind),
    transitions: one(transition),
    before: before === undefined ? undefined : yield* positionOf(before),
    limit,
    positions: searchedPositions
  }
  const within: Partial<LogSearch> = hold === undefined ? {} : yield* ofHold(hold)
  const end = Math.min(selected.before ?? Infinity, within.before ?? Infinity)
  const { entries, next } = yield* searchLog({ ...selected, ...within, before: end === Infinity ? undefined : end })
  return { items: entries.map(viewOf(identity)), next: next === null ? null : formatPosition(identity, next) }
})

/** `publishes`: whether the event log is published to a sink. */
export const layer = (publishes: boolean) =>
  HttpApiBuilder.group(Api, "changes", (handlers) =>
    handlers
      .handle("search", ({ query }) => search(query))
      .handle("path", ({ params: { position } }) => pathOf(position, publishes))
      .handle("content", ({ params: { position } }) => reveal(position)))
