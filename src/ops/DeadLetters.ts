/** Dead letters over HTTP: what was given up, why, and what people decide about it, all of it or by a counted plan. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { writes } from "../api/Writes.ts"
import * as DeadLetters from "../delivery/DeadLetters.ts"
import * as Outcomes from "../delivery/Outcomes.ts"
import { formatPosition, type LogIdentity } from "../domain/ChangeEvent.ts"
import { type DeadLetter, Deliveries, type Failure, type OpenStep } from "../store/Deliveries.ts"
import { Store } from "../store/Store.ts"
import { Api } from "./Api.ts"
import type { DeadLetterView, OutcomeView } from "./DeadLetterApi.ts"
import * as Feed from "./Feed.ts"
import { AnswerMalformed, NotFound, NotNow } from "./Problem.ts"

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

/** Where an operator can find out whether it happened. */
const lookAt = ({ seen, target, write }: OpenStep): string => {
  const where = target === null ? "the other system" : `the system that ${target.integration} connects`
  if (write === null) {
    return `Only the handler knows what this step does: look where it does it, or ask whoever wrote it.`
  }
  const { shows } = writes[write]
  if (shows === null) return `Nothing that Rollcall reads shows this: look in ${where}.`
  const model = shows.path === "" ? `a record of ${shows.model}` : `${shows.path} of a record of ${shows.model}`
  if (seen !== null) return `Rollcall has seen it in ${seen.model}/${seen.id}: look whether that is it.`
  return `It would show as ${model}; Rollcall has not seen it there, which proves nothing: look in ${where}.`
}

const outcomeOf = (letter: number, step: OpenStep): OutcomeView => {
  const { begunAt, delivery, name, seen, state, target, write } = step
  const command = `rollcall deadletters resolve ${letter} --outcome ${name}`
  // of what a write created, the record that shows it is it; else it shows in another one
  const created = write !== null && writes[write].shows?.path === "" ? seen?.id ?? "" : ""
  const id = /^[\w.:-]+$/.test(created) ? created : "<id>"
  return {
    outcome: name,
    state,
    step: step.step,
    write,
    method: write === null ? null : writes[write].method,
    path: Outcomes.pathOf(step),
    integration: target?.integration ?? null,
    sent_at: state === "unsent" ? null : instant(begunAt),
    delivery,
    shows: write === null ? null : writes[write].shows?.model ?? null,
    seen: seen && { model: seen.model, record: seen.id, at: instant(seen.at) },
    look: lookAt(step),
    commands: {
      happened: `${command} --happened${Outcomes.answersId(write) ? ` --id ${id}` : ""}`,
      did_not_happen: `${command} --did-not-happen`
    }
  }
}

const notFound = (id: number) =>
  new NotFound({
    detail: `there is no dead letter ${id}: rollcall deadletters list, or GET /v1/deadletters, shows them`
  })

/** Times as the query has them, in ms. */
const filterOf = <F extends { readonly since?: DateTime.Utc; readonly until?: DateTime.Utc }>(
  { since, until, ...filter }: F
) => ({
  ...filter,
  since: since && DateTime.toEpochMillis(since),
  until: until && DateTime.toEpochMillis(until)
})

const outdated = (
  { hint, message }: DeadLetters.PlanOutdated | DeadLetters.Unresolved | Outcomes.AnswerRefused
) => Effect.fail(new NotNow({ detail: message, hint }))

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
        if (found === null) return yield* notFound(id)
        const outcomes = yield* Outcomes.of(found)
        return {
          ...viewOf(identity, found),
          attempted: found.attempted.map(({ asked, failure, number, startedAt }) => ({
            number,
            started_at: instant(startedAt),
            failed_at: instant(failure.at),
            ...failureOf(failure),
            requests: asked.map((request) => ({ ...request, at: instant(request.at) }))
          })),
          journal: found.journal.map(({ begunAt, ...step }) => ({ ...step, begun_at: instant(begunAt) })),
          outcomes: outcomes.map((step) => outcomeOf(id, step))
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
        Effect.catchTags({ PlanOutdated: outdated, Unresolved: outdated, StoreError: Feed.orStoreAway })
      ))
    .handle("discard", ({ payload: { plan, ...filter } }) =>
      DeadLetters.discard(filterOf(filter), plan).pipe(
        Effect.map((count) => ({ count })),
        Effect.catchTags({ PlanOutdated: outdated, StoreError: Feed.orStoreAway })
      ))
    .handle("resolve", ({ params: { id }, payload: { outcome, ...said } }) =>
      Outcomes.resolve(id, outcome, said).pipe(
        Effect.map(({ left }) => ({ outcome, happened: said.happened, redriven: left === 0, left })),
        Effect.catchTags({
          NoDeadLetter: () =>
            Effect.fail(notFound(id)),
          AnswerMisfit: ({ hint, message }: Outcomes.AnswerMisfit) =>
            Effect.fail(new AnswerMalformed({ detail: message, hint })),
          AnswerRefused: outdated,
          StoreError: Feed.orStoreAway
        })
      )))
