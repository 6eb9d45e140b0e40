/** Dead letters over HTTP: what was given up, why, and what people decide about it, all of it or by a counted plan. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as DeadLetters from "../delivery/DeadLetters.ts"
import { formatPosition, type LogIdentity } from "../domain/ChangeEvent.ts"
import { type DeadLetter, Deliveries, type Failure } from "../store/Deliveries.ts"
import { Store } from "../store/Store.ts"
import { Api } from "./Api.ts"
import type { DeadLetterView } from "./DeadLetterApi.ts"
import * as Feed from "./Feed.ts"
import { NotFound, NotNow } from "./Problem.ts"

const defaultLimit = 100
const instant = (millis: number): string => new Date(millis).toISOString()

const failureOf = ({ faults, message, reason, refusal }: Failure) => ({ reason, message, refusal, faults })

const viewOf = (identity: LogIdentity, letter: DeadLetter): DeadLetterView => {
  const { event, failure, subject } = letter
  return {
    id: letter.id,
    plugin: letter.plugin,
    handler: letter.handler,
    integration: letter.integration,
    event: event && {
      id: event.eventId,
      model: event.model,
      record: event.id,
      version: event.version,
      kind: event.kind
    },
    position: formatPosition(identity, subject._tag === "Event" ? subject.position : subject.from),
    scheduled_at: subject._tag === "Tick" ? instant(subject.scheduledAt) : null,
    ...failureOf(failure),
    attempts: letter.attempts,
    created_at: instant(letter.createdAt),
    died_at: instant(failure.at),
    parked: letter.parked,
    fresh: letter.fresh !== null
  }
}

/** Times as the query has them, in ms. */
const filterOf = <F extends { readonly since?: DateTime.Utc; readonly until?: DateTime.Utc }>(
  { since, until, ...filter }: F
) => ({
  ...filter,
  since: since && DateTime.toEpochMillis(since),
  until: until && DateTime.toEpochMillis(until)
})

const outdated = ({ hint, message }: DeadLetters.PlanOutdated) => Effect.fail(new NotNow({ detail: message, hint }))

export const layer = HttpApiBuilder.group(Api, "deadletters", (handlers) =>
  handlers
    .handle("list", ({ query: { limit = defaultLimit, ...query } }) =>
      Effect.gen(function*() {
        const { identity } = yield* Store
        const { deadLetters } = yield* Deliveries
        const letters = yield* deadLetters({ ...filterOf(query), limit })
        const last = letters.length < limit ? undefined : letters.at(-1)
        return {
          items: letters.map((letter) => viewOf(identity, letter)),
          next: last === undefined ? null : String(last.id)
        }
      }).pipe(Effect.catchTag("StoreError", Feed.orStoreAway)))
    .handle("show", ({ params: { id } }) =>
      Effect.gen(function*() {
        const { identity } = yield* Store
        const { story } = yield* Deliveries
        const found = yield* story(id)
        if (found === null) {
          return yield* new NotFound({
            detail: `there is no dead letter ${id}: rollcall deadletters list, or GET /v1/deadletters, shows them`
          })
        }
        return {
          ...viewOf(identity, found),
          attempted: found.attempted.map(({ asked, failure, number, startedAt }) => ({
            number,
            started_at: instant(startedAt),
            failed_at: instant(failure.at),
            ...failureOf(failure),
            requests: asked.map((request) => ({ ...request, at: instant(request.at) }))
          })),
          journal: found.journal.map(({ begunAt, ...step }) => ({ ...step, begun_at: instant(begunAt) }))
        }
      }).pipe(Effect.catchTag("StoreError", Feed.orStoreAway)))
    .handle("plan", ({ payload }) =>
      DeadLetters.plan(filterOf(payload)).pipe(
        Effect.map(({ hash, ...plan }) => ({ plan: hash, ...plan })),
        Effect.catchTags({
          UnknownLetters: ({ hint, message }: DeadLetters.UnknownLetters) =>
            Effect.fail(new NotFound({ detail: `${message}: ${hint}` })),
          StoreError: Feed.orStoreAway
        })
      ))
    .handle("redrive", ({ payload: { fresh = false, over = "0 seconds", plan, ...filter } }) =>
      DeadLetters.redrive(filterOf(filter), plan, {
        over: Duration.fromInputUnsafe(over as Duration.Input),
        fresh
      }).pipe(
        Effect.map(({ count, from, to }) => ({ count, from: instant(from), to: instant(to) })),
        Effect.catchTags({ PlanOutdated: outdated, StoreError: Feed.orStoreAway })
      ))
    .handle("discard", ({ payload: { plan, ...filter } }) =>
      DeadLetters.discard(filterOf(filter), plan).pipe(
        Effect.map((count) => ({ count })),
        Effect.catchTags({ PlanOutdated: outdated, StoreError: Feed.orStoreAway })
      )))
