/**
 * Holds over HTTP: what the guard keeps back, and the decisions of people about it. Every decision is a line of the log.
 *
 * Gotchas
 * - A decision is written to the store; whoever reads the stream carries it out. So it can be taken while nothing is read.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type { Hold } from "../../store/State.ts"
import { type ListedHold, Store } from "../../store/Store.ts"
import { Api } from "../Api.ts"
import * as FeedHandlers from "../feed/FeedHandlers.ts"
import { Conflict, NotFound } from "../Problem.ts"
import { holdView } from "../status/Overview.ts"

const defaultLimit = 100
const instant = (millis: number): string => new Date(millis).toISOString()

const find = Effect.fnUntraced(function*(id: number) {
  const store = yield* Store
  const hold = yield* store.hold(id)
  return hold ??
    (yield* new NotFound({ detail: `there is no hold ${id}: rollcall holds list, or GET /v1/holds, shows them` }))
})

const viewOf = Effect.fnUntraced(function*(hold: ListedHold) {
  const store = yield* Store
  return holdView(hold, yield* store.stream(hold))
})

const alreadyDecidedHints: Readonly<Record<Hold["state"], string>> = {
  open: "look at it again",
  rejected: "it stays so until it is approved, or its records are seen otherwise",
  approving: "what is approved cannot be taken back",
  approved: "what is approved cannot be taken back",
  cancelled: "nothing is left of it: its records were seen as they are published"
}

const decide = Effect.fnUntraced(function*(id: number, decision: Parameters<Store["Service"]["decide"]>[1]) {
  const store = yield* Store
  const before = yield* find(id)
  if (decision.state === "approving" && decision.release.silent && before.kind !== "scope") {
    return yield* new Conflict({
      detail: "only a scope hold can be approved silently",
      hint: "deletes and restores are published, or rejected"
    })
  }
  if (!(yield* store.decide(id, decision, yield* Clock.currentTimeMillis))) {
    const { state } = yield* find(id)
    return yield* new Conflict({ detail: `hold ${id} is ${state} already`, hint: alreadyDecidedHints[state] })
  }
  yield* Effect.logInfo(decision.state === "rejected" ? "hold rejected" : "hold approved").pipe(Effect.annotateLogs({
    hold: id,
    integration: before.integration,
    model: before.model,
    records: before.rows,
    ...(decision.state === "rejected" ? {} : decision.release)
  }))
  return yield* viewOf(yield* find(id))
})

export const layer = HttpApiBuilder.group(Api, "holds", (handlers) =>
  handlers
    .handle("list", ({ query }) =>
      Effect.gen(function*() {
        const store = yield* Store
        const limit = query.limit ?? defaultLimit
        const states = query.state === undefined ? undefined : [query.state]
        const holds = yield* store.holds({ states, before: query.after, limit })
        const last = holds.length < limit ? undefined : holds.at(-1)
        return { items: yield* Effect.forEach(holds, viewOf), next: last === undefined ? null : String(last.id) }
      }).pipe(Effect.catchTag("StoreError", FeedHandlers.toStoreUnavailable)))
    .handle("show", ({ params, query }) =>
      Effect.gen(function*() {
        const store = yield* Store
        const hold = yield* find(params.id)
        const limit = query.limit ?? defaultLimit
        const rows = yield* store.pendingRows({ hold: hold.id, after: query.after, limit })
        const records = rows.map(({ changedAt, detectedAt, id, reason, status }) => ({
          id,
          status: status === "rejected" ? "rejected" as const : "held" as const,
          reason,
          changed_at: changedAt,
          detected_at: instant(detectedAt)
        }))
        return { hold: yield* viewOf(hold), records, next: rows.length < limit ? null : rows.at(-1)!.id }
      }).pipe(Effect.catchTag("StoreError", FeedHandlers.toStoreUnavailable)))
    .handle("approve", ({ params, query }) =>
      decide(params.id, {
        state: "approving",
        release: { origin: query.origin ?? null, silent: query.silent === "true" }
      }).pipe(Effect.catchTag("StoreError", FeedHandlers.toStoreUnavailable)))
    .handle("reject", ({ params }) =>
      decide(params.id, { state: "rejected" }).pipe(Effect.catchTag("StoreError", FeedHandlers.toStoreUnavailable))))
