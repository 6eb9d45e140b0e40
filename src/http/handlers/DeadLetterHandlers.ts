/** Handlers for dead letters: list and show them, redrive or discard them by plan, and resolve unknown outcomes. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { writes } from "../../api/Writes.ts"
import * as DeadLetters from "../../delivery/admin/DeadLetters.ts"
import * as UnknownOutcomes from "../../delivery/admin/UnknownOutcomes.ts"
import { formatPosition, type LogIdentity } from "../../domain/ChangeEvent.ts"
import { type DurationInput, toDuration } from "../../domain/DurationText.ts"
import { remedyOf } from "../../domain/FailureCause.ts"
import { openCircuitsOf } from "../../domain/HandlerCircuit.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { DeadLetter, DeadLetterCause, UnresolvedStep } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import type { DeadLetterView, GroupView, OutcomeView } from "../contract/DeadLetterViews.ts"
import { NotFound, ResolutionMalformed, toConflict, toNotFound } from "../contract/Problem.ts"
import { pageOf } from "../contract/Schemas.ts"
import { pluginList } from "../status/OverviewCache.ts"
import { streamPage } from "../status/StoreOverview.ts"

const defaultLimit = 100
const mostCauses = 100

/** The view contains more properties than its schema names. The encoding of the response drops them. */
const viewOf = (identity: LogIdentity, letter: DeadLetter): DeadLetterView => {
  const { event, failure, subject } = letter
  return {
    ...letter,
    ...failure,
    event: event && { ...event, id: event.eventId, record: event.id },
    position: formatPosition(identity, subject._tag === "Event" ? subject.position : subject.from),
    scheduled_at: subject._tag === "Tick" ? formatTime(subject.scheduledAt) : null,
    created_at: formatTime(letter.createdAt),
    died_at: formatTime(failure.at),
    fresh: letter.fresh !== null
  }
}

const groupView = ({ failure, newestAt, oldestAt, ...cause }: DeadLetterCause): GroupView => ({
  ...failure,
  ...cause,
  remedy: remedyOf(failure.reason, failure.refusal),
  oldest_at: formatTime(oldestAt),
  newest_at: formatTime(newestAt)
})

/** Whether Rollcall reads the model that would show the write, in the integration to which it was sent. */
const isShownByStream = Effect.fnUntraced(function*({ target, write }: UnresolvedStep) {
  const model = write === null ? undefined : writes[write].visibleIn?.model
  if (target === null || model === undefined) return false
  const { items } = yield* streamPage({ integrations: [target.integration], models: [model], limit: 1 })
  return items.length > 0
})

/** Describes where an operator can find out whether the write or step happened. */
const describeWhereToLook = ({ shownBy, target, write }: UnresolvedStep, isRead: boolean): string => {
  const where = target === null ? "the other system" : `the system that ${target.integration} connects`
  if (write === null) {
    return `Only the code of the handler shows what this step does: read it, or ask the author of the plugin.`
  }
  const { visibleIn } = writes[write]
  if (visibleIn === null) return `No model that Rollcall reads shows this write: look in ${where}.`
  const model = visibleIn.path === ""
    ? `a record of ${visibleIn.model}`
    : `${visibleIn.path} of a record of ${visibleIn.model}`
  if (shownBy !== null) return `Rollcall has seen it in ${shownBy.model}/${shownBy.id}: check whether it is this write.`
  return isRead
    ? `It would appear as ${model}. Rollcall has not seen it there, but it may have happened: look in ${where}.`
    : `It would appear as ${model}, which Rollcall does not read there: look in ${where}.`
}

const outcomeOf = (letter: number, step: UnresolvedStep, isRead: boolean): OutcomeView => {
  const { begunAt, delivery, name, shownBy, state, target, write } = step
  const command = `rollcall deadletters resolve ${letter} --outcome ${name}`
  // the record in which the write was seen is the created record only if the write creates one; otherwise it was only changed
  const created = write !== null && writes[write].visibleIn?.path === "" ? shownBy?.id ?? "" : ""
  const id = /^[\w.:-]+$/.test(created) ? created : "<id>"
  return {
    outcome: name,
    state,
    step: step.step,
    write,
    method: write === null ? null : writes[write].method,
    path: UnknownOutcomes.pathOf(step),
    integration: target?.integration ?? null,
    sent_at: state === "unsent" ? null : formatTime(begunAt),
    delivery,
    visible_in: write === null ? null : writes[write].visibleIn?.model ?? null,
    seen: shownBy && { model: shownBy.model, record: shownBy.id, at: formatTime(shownBy.at) },
    where_to_look: describeWhereToLook(step, isRead),
    commands: {
      happened: `${command} --happened${UnknownOutcomes.returnsId(write) ? ` --id ${id}` : ""}`,
      did_not_happen: `${command} --did-not-happen`
    }
  }
}

const notFound = (id: number) =>
  new NotFound({
    detail: `dead letter ${id} does not exist: \`rollcall deadletters list\` or GET /v1/deadletters lists them`
  })

export const layer = HttpApiBuilder.group(Api, "deadletters", (handlers) =>
  handlers
    .handle("list", ({ query: { limit = defaultLimit, ...query } }) =>
      Effect.gen(function*() {
        const { identity } = yield* Store
        const { deadLetters } = yield* Deliveries
        const letters = yield* deadLetters({ ...query, limit })
        return pageOf(letters.map((letter) => viewOf(identity, letter)), limit)
      }))
    .handle("groups", ({ query }) =>
      Effect.flatMap(Deliveries, ({ deadLetterCauses }) =>
        deadLetterCauses(query, mostCauses)).pipe(
          Effect.map(({ areAll, causes }) => ({ items: causes.map(groupView), complete: areAll }))
        ))
    .handle("show", ({ params: { id } }) =>
      Effect.gen(function*() {
        const { identity } = yield* Store
        const { deadLetterDetail } = yield* Deliveries
        const found = yield* deadLetterDetail(id)
        if (found === null) {
          return yield* notFound(id)
        }
        const outcomes = yield* UnknownOutcomes.openStepsOf(found)
        return {
          ...viewOf(identity, found),
          failed_attempts: found.failedAttempts.map(({ requests, failure, number, startedAt }) => ({
            number,
            started_at: formatTime(startedAt),
            failed_at: formatTime(failure.at),
            ...failure,
            requests: requests.map((request) => ({ ...request, at: formatTime(request.at) }))
          })),
          journal: found.journal.map(({ begunAt, ...step }) => ({ ...step, begun_at: formatTime(begunAt) })),
          outcomes: yield* Effect.forEach(
            outcomes,
            (step) =>
              Effect.map(isShownByStream(step), (isRead) => outcomeOf(id, step, isRead))
          )
        }
      }))
    .handle("plan", ({ payload }) =>
      DeadLetters.plan(payload).pipe(
        Effect.flatMap(({ hash, unknownIds, ...plan }) =>
          Effect.zipWith(pluginList, Clock.currentTimeMillis, ({ items }, now) => ({
            plan: hash,
            unknown_ids: unknownIds,
            ...plan,
            circuits: openCircuitsOf(plan.shares, items, now)
          }))
        ),
        Effect.catchTag("DeadLettersNotFound", toNotFound)
      ))
    .handle("redrive", ({ payload: { fresh = false, over = "0 seconds", plan, ...filter } }) =>
      DeadLetters.redrive(filter, plan, {
        over: toDuration(over as DurationInput),
        fresh
      }).pipe(
        Effect.map(({ from, to, ...redriven }) => ({ ...redriven, from: formatTime(from), to: formatTime(to) })),
        Effect.catchTags({ PlanOutdated: toConflict, Unresolved: toConflict })
      ))
    .handle("progress", ({ payload: { ranges } }) =>
      Effect.flatMap(Deliveries, ({ progressOf }) =>
        progressOf(ranges)))
    .handle("discard", ({ payload: { plan, ...filter } }) =>
      DeadLetters.discard(filter, plan).pipe(
        Effect.map((count) => ({ count })),
        Effect.catchTag("PlanOutdated", toConflict)
      ))
    .handle("resolve", ({ params: { id }, payload: { outcome, ...report } }) =>
      UnknownOutcomes.resolve(id, outcome, report).pipe(
        Effect.map(({ left }) => ({ outcome, happened: report.happened, redriven: left === 0, remaining: left })),
        Effect.catchTags({
          DeadLetterNotFound: () =>
            notFound(id),
          InvalidOutcome: ({ hint, message }) =>
            new ResolutionMalformed({ detail: message, hint }),
          OutcomeRejected: toConflict
        })
      )))
