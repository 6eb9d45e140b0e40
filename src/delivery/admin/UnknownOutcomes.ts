/**
 * Writes and steps of a dead letter whose outcome is unknown, and the answers of operators: "it happened", with an id if
 * it created something, or "it did not happen".
 *
 * Invariants
 * 1. The result that a handler is given for an answered write is what its schema says that the API answers
 * 2. "It did not happen" is not taken before the API has had the time to show the write   (L5)
 *
 * Gotchas
 * - What a step that is not a write gives back is known to its handler alone: its result is taken as it is, and if the
 *   step's schema refuses it the delivery dies again, and the answer can be corrected.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Empty, type WriteData, type WriteName, writes, writeSchemas } from "../../api/Writes.ts"
import { createdIds } from "../../domain/Expectation.ts"
import type { Model } from "../../domain/Model.ts"
import {
  type DeadLetter,
  dedupKeysOf,
  Deliveries,
  type Resolution,
  type UnresolvedStep
} from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"
import { recordDedupKeyOf } from "../handler/Attempt.ts"
import { settlingMillis } from "../handler/WriteVerification.ts"

/** What an operator says. `id`: of what the write created. `result`: all that the write, or the step, gave back. */
export interface ReportedOutcome {
  readonly happened: boolean
  readonly id?: string | undefined
  readonly result?: unknown
}

/** There is no such dead letter. */
export class DeadLetterNotFound
  extends Schema.TaggedError<DeadLetterNotFound>()("DeadLetterNotFound", { message: Schema.String })
{}

/** The answer does not fit the write. Nothing was done. */
export class InvalidOutcome extends Schema.TaggedError<InvalidOutcome>()("InvalidOutcome", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** The answer cannot be taken now. Nothing was done. */
export class OutcomeRejected extends Schema.TaggedError<OutcomeRejected>()("OutcomeRejected", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** Everything that a step of this dead letter may be done once for. */
const dedupKeysFor = (letter: DeadLetter): ReadonlyArray<string> => {
  const { event, integration, subject } = letter
  const record = subject._tag === "Tick" ? "tick" : event
  return record === null ? dedupKeysOf(letter) : [...dedupKeysOf(letter), recordDedupKeyOf(integration, record)]
}

/** The open steps of a dead letter, the oldest first. */
export const openStepsOf = (letter: DeadLetter): Effect.Effect<ReadonlyArray<UnresolvedStep>, StoreError, Deliveries> =>
  Effect.flatMap(Deliveries, ({ unresolvedSteps }) => unresolvedSteps(letter.id, dedupKeysFor(letter)))

/** The address of a write, with the ids in it; null if it is not known. */
export const pathOf = ({ target, write }: UnresolvedStep): string | null =>
  write === null || target === null ? null : writes[write].path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => encodeURIComponent(target.params[name]?.toWellFormed() ?? "")
  )

/** Whether the API answers such a write with what it created or changed, by its id. */
export const returnsId = (write: WriteName | null): boolean => write !== null && writeSchemas[write].data !== Empty

// ---- the result ---------------------------------------------------------------------------------------------------

/** Not what was copied with something around it, nor what no store holds (decision 0019). */
const isId = (text: string): boolean =>
  text !== "" && text === text.trim() && !/\p{Cc}/u.test(text) && text.isWellFormed() &&
  Buffer.byteLength(text) <= 1_000

const invalid = (message: string, hint: string) => new InvalidOutcome({ message, hint })

/** What Rollcall knows of the record that a write created. */
const publishedContent = Effect.fnUntraced(function*(write: WriteName, id: string, target: UnresolvedStep["target"]) {
  const { content } = yield* Deliveries
  const shown = write === "createApplication" && target !== null
    ? yield* content({ integration: target.integration, model: "ats.application" }, id)
    : null
  return shown === null ? { id } : JSON.parse(shown) as unknown
})

const writeResultOf = Effect.fnUntraced(
  function*(write: WriteName, { id, result }: ReportedOutcome, target: UnresolvedStep["target"]) {
    const data: Schema.Codec<unknown, unknown> = writeSchemas[write].data
    if (!returnsId(write)) {
      if (id === undefined && result === undefined) return {}
      return yield* invalid(`${write} answers without an id or a result`, "leave both out")
    }
    if (id === undefined && result === undefined) {
      return yield* invalid(
        `the handler goes on with what ${write} answered, and that has an id`,
        "give the id that the other system shows, as the unified API names it"
      )
    }
    if (id !== undefined && !isId(id)) {
      return yield* invalid(
        "this is not the form of an id",
        "an id has at most 1,000 bytes, no control characters, and no space before or behind it"
      )
    }
    const answer = result ?? (yield* publishedContent(write, id ?? "", target))
    const decoded = Schema.decodeUnknownResult(data)(answer)
    if (Result.isFailure(decoded)) {
      return yield* invalid(`the result is not what ${write} answers`, 'it is an object with at least an "id"')
    }
    const given = (decoded.success as { readonly id: string }).id
    if (!isId(given) || (id !== undefined && given !== id)) {
      return yield* invalid(
        `the id in the result is missing, malformed or not the id that was given`,
        "give one of the two"
      )
    }
    return decoded.success
  }
)

const answerOf = Effect.fnUntraced(function*(
  { target, write }: UnresolvedStep,
  report: ReportedOutcome
): Effect.fn.Return<Resolution, InvalidOutcome | StoreError, Deliveries> {
  if (!report.happened) {
    if (report.id === undefined && report.result === undefined) return { _tag: "DidNotHappen" }
    return yield* invalid("what did not happen has neither an id nor a result", "leave both out")
  }
  if (write !== null) {
    const data = yield* writeResultOf(write, report, target)
    const created: Readonly<Partial<Record<Model, string>>> = createdIds(write, data as WriteData<typeof write>)
    return { _tag: "Happened", result: JSON.stringify(data), created }
  }
  if (report.id !== undefined) {
    return yield* invalid("a step that is not a write has no id", "give its result instead, as JSON")
  }
  return { _tag: "Happened", result: JSON.stringify(report.result ?? null), created: {} }
})

// ---- answering ----------------------------------------------------------------------------------------------------

const refused = {
  NotDeadLetter: {
    message: "it is no dead letter any more: somebody has sent it again, given it up or answered for it",
    hint: "rollcall deadletters list shows what is dead now"
  },
  Outdated: {
    message: "the outcome that was asked about is not open any more, or not as it was shown",
    hint: "look at the dead letter again, and answer for what it shows now"
  },
  Running: {
    message: "the attempt that sent it is under way and may still hear what became of it",
    hint: "wait until it has ended, and look at the dead letter again"
  }
} as const

/** Still to be answered for; the dead letter is sent again when there is nothing left. */
export interface Resolved {
  readonly step: UnresolvedStep
  readonly left: number
}

/** Takes an operator's answer for the open step of this name. */
export const resolve = Effect.fn("UnknownOutcomes.resolve")(function*(
  id: number,
  name: string,
  report: ReportedOutcome
): Effect.fn.Return<Resolved, DeadLetterNotFound | InvalidOutcome | OutcomeRejected | StoreError, Deliveries> {
  const deliveries = yield* Deliveries
  const letter = yield* deliveries.deadLetterDetail(id)
  if (letter === null) return yield* new DeadLetterNotFound({ message: `there is no dead letter ${id}` })
  const step = (yield* openStepsOf(letter)).find((one) => one.name === name)
  if (step === undefined) return yield* new OutcomeRejected(refused.Outdated)
  const answer = yield* answerOf(step, report)
  const now = yield* Clock.currentTimeMillis
  // a clock that was set back since says nothing of how long ago it was   (W4)
  const isEarly = Math.abs(now - step.begunAt) < settlingMillis
  if (answer._tag === "DidNotHappen" && step.state === "unknown" && isEarly) {
    return yield* new OutcomeRejected({
      message: "it was sent less than five minutes ago: what is not shown yet may have happened",
      hint: `look again, and answer from ${new Date(step.begunAt + settlingMillis).toISOString()} on`
    })
  }
  const action = {
    at: now,
    command: "deadletters.resolve",
    target: `${letter.plugin}/${letter.handler} ${id}`,
    detail: [
      step.write ?? `step "${step.step}"`,
      pathOf(step) ?? "",
      step.target?.integration ?? "",
      report.happened ? "happened" : "did not happen",
      report.id ?? ""
    ].filter((part) => part !== "").join(" ")
  }
  const answered = yield* deliveries.resolve(id, dedupKeysFor(letter), name, answer, now, action)
  if (answered._tag !== "Answered") return yield* new OutcomeRejected(refused[answered._tag])
  yield* Effect.annotateLogs(Effect.logInfo("operator acted"), {
    command: action.command,
    target: action.target,
    detail: action.detail
  })
  return { step, left: answered.left }
})
