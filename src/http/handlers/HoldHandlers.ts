/**
 * Handlers for holds: list them, and record the operator's decision. Every decision is logged.
 *
 * Gotchas
 * - An approval cannot be undone, so it requires a plan: the hash of the records that the operator has seen. A rejection publishes
 *   nothing and can be followed by an approval, so it requires no plan.
 * - A decision is written to the store, and the process that reads the stream carries it out. So an operator can decide
 *   while the stream is not read.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { Hold, ListedHold } from "../../store/Records.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, NotFound } from "../contract/Problem.ts"
import { pageOf } from "../contract/Schemas.ts"
import { holdView } from "../status/HoldViews.ts"
import { changesOf, contentOf, pathsOf, patternsOf } from "./HeldChanges.ts"

const defaultLimit = 100

const notFound = (id: number) =>
  new NotFound({ detail: `hold ${id} does not exist: \`rollcall holds list\` or GET /v1/holds lists the holds` })

const find = Effect.fnUntraced(function*(id: number) {
  const store = yield* Store
  return (yield* store.hold(id)) ?? (yield* notFound(id))
})

const viewOf = Effect.fnUntraced(function*(hold: ListedHold) {
  const store = yield* Store
  return holdView(yield* CurrentModels, hold, {
    state: yield* store.stream(hold),
    integration: yield* store.integration(hold.integration),
    now: yield* Clock.currentTimeMillis
  })
})

/** The last decision of an operator; null while there is none. */
const decisionOf = Effect.fnUntraced(function*({ decidedAt, id }: Hold) {
  if (decidedAt === null) return null
  const entry = yield* (yield* Store).lastAction(["holds.approve", "holds.reject"], String(id))
  return entry && { at: formatTime(entry.at), actor: entry.actor, address: entry.address }
})

const reveal = Effect.fnUntraced(function*(id: number, after: string | null, limit: number) {
  const hold = yield* find(id)
  // no id of a record: a forgotten person must not remain in the audit log
  yield* (yield* Store).recordAction({
    at: yield* Clock.currentTimeMillis,
    command: "holds.reveal",
    target: String(id),
    detail: `${hold.integration}/${hold.model}`
  })
  const changes = yield* changesOf(hold, after, limit)
  return { items: changes.map(contentOf), next: changes.length < limit ? null : changes.at(-1)!.row.id }
})

const alreadyDecidedHints: Readonly<Record<Hold["state"], string>> = {
  open: "show the hold again and decide",
  rejected: "it stays rejected until it is approved, or until its records change again",
  approving: "an approval cannot be undone",
  approved: "an approval cannot be undone",
  canceled: "it has no records left: each was seen again with its published content"
}

const isDecidable = ({ state }: Hold): boolean => state === "open" || state === "rejected"

const alreadyDecided = ({ id, state }: Hold) =>
  new Conflict({ detail: `hold ${id} is already ${state}`, hint: alreadyDecidedHints[state] })

const plan = Effect.fnUntraced(function*(id: number) {
  const store = yield* Store
  const hold = yield* find(id)
  if (!isDecidable(hold)) return yield* alreadyDecided(hold)
  const { hash, rows } = (yield* store.holdPlan(id)) ?? (yield* notFound(id))
  return { plan: hash, hold: yield* viewOf({ ...hold, rows }) }
})

const decide = Effect.fnUntraced(function*(id: number, decision: Parameters<Store["Service"]["decide"]>[1]) {
  const store = yield* Store
  const before = yield* find(id)
  if (decision.state === "approving" && decision.release.silent && before.kind !== "scope") {
    return yield* new Conflict({
      detail: "only a scope hold can be approved silently",
      hint: "approve this hold without silent, or reject it"
    })
  }
  if (!(yield* store.decide(id, decision, yield* Clock.currentTimeMillis))) {
    const now = yield* find(id)
    if (decision.state === "rejected" || !isDecidable(now)) return yield* alreadyDecided(now)
    return yield* new Conflict({
      detail: `the plan is outdated: the records of hold ${id} or their content have changed ` +
        `(it has ${now.rows} ${now.rows === 1 ? "record" : "records"} now)`,
      hint: "plan again, check the records, and pass the new plan"
    })
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
        // the newest hold comes first, so the next page has the holds with ids before `after`
        const holds = yield* store.holds({ states, before: query.after, limit })
        return pageOf(yield* Effect.forEach(holds, viewOf), limit)
      }))
    .handle("show", ({ params, query }) =>
      Effect.gen(function*() {
        const hold = yield* find(params.id)
        const limit = query.limit ?? defaultLimit
        const changes = yield* changesOf(hold, query.after ?? null, limit)
        const records = changes.map((change) => {
          const { changedAt, detectedAt, id, reason, remoteId, status } = change.row
          return {
            id,
            remote_id: remoteId,
            status: status === "rejected" ? "rejected" as const : "held" as const,
            reason,
            ...pathsOf(change),
            changed_at: changedAt,
            detected_at: formatTime(detectedAt)
          }
        })
        return {
          hold: yield* viewOf(hold),
          decision: yield* decisionOf(hold),
          records,
          next: changes.length < limit ? null : changes.at(-1)!.row.id
        }
      }))
    .handle("patterns", ({ params }) => Effect.flatMap(find(params.id), patternsOf))
    .handle("content", ({ params, query }) => reveal(params.id, query.after ?? null, query.limit ?? defaultLimit))
    .handle("plan", ({ params }) => plan(params.id))
    .handle("approve", ({ params, query }) =>
      decide(params.id, {
        state: "approving",
        plan: query.plan,
        release: { origin: query.origin ?? null, silent: query.silent === "true" }
      }))
    .handle("reject", ({ params }) => decide(params.id, { state: "rejected" })))
