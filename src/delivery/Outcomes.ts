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
import { Empty, type WriteData, type WriteName, writes, writeSchemas } from "../api/Writes.ts"
import { createdBy } from "../domain/Expectation.ts"
import type { Model } from "../domain/Model.ts"
import { type Answer, type DeadLetter, Deliveries, occasionsOf, type OpenStep } from "../store/Deliveries.ts"
import type { StoreError } from "../store/Store.ts"
import { settling } from "./Asking.ts"
import { lastingOf } from "./Attempt.ts"

/** What an operator says. `id`: of what the write created. `result`: all that the write, or the step, gave back. */
export interface Said {
  readonly happened: boolean
  readonly id?: string | undefined
  readonly result?: unknown
}

/** There is no such dead letter. */
export class NoDeadLetter extends Schema.TaggedError<NoDeadLetter>()("NoDeadLetter", { message: Schema.String }) {}

/** The answer does not fit the write. Nothing was done. */
export class AnswerMisfit extends Schema.TaggedError<AnswerMisfit>()("AnswerMisfit", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** The answer cannot be taken now. Nothing was done. */
export class AnswerRefused extends Schema.TaggedError<AnswerRefused>()("AnswerRefused", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** Everything that a step of this dead letter may be done once for. */
const occasionsFor = (letter: DeadLetter): ReadonlyArray<string> => {
  const { event, integration, subject } = letter
  const record = subject._tag === "Tick" ? "tick" : event
  return record === null ? occasionsOf(letter) : [...occasionsOf(letter), lastingOf(integration, record)]
}

/** The open steps of a dead letter, the oldest first. */
export const of = (letter: DeadLetter): Effect.Effect<ReadonlyArray<OpenStep>, StoreError, Deliveries> =>
  Effect.flatMap(Deliveries, ({ openSteps }) => openSteps(letter.id, occasionsFor(letter)))

/** The address of a write, with the ids in it; null if it is not known. */
export const pathOf = ({ target, write }: OpenStep): string | null =>
  write === null || target === null ? null : writes[write].path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => encodeURIComponent(target.params[name]?.toWellFormed() ?? "")
  )

/** Whether the API answers such a write with what it created or changed, by its id. */
export const answersId = (write: WriteName | null): boolean => write !== null && writeSchemas[write].data !== Empty

// ---- the result ---------------------------------------------------------------------------------------------------

/** Not what was copied with something around it, nor what no store holds (decision 0019). */
const isId = (text: string): boolean =>
  text !== "" && text === text.trim() && !/\p{Cc}/u.test(text) && text.isWellFormed() &&
  Buffer.byteLength(text) <= 1_000

const misfit = (message: string, hint: string) => new AnswerMisfit({ message, hint })

/** What Rollcall knows of the record that a write created. */
const known = Effect.fnUntraced(function*(write: WriteName, id: string, target: OpenStep["target"]) {
  const { content } = yield* Deliveries
  const shown = write === "createApplication" && target !== null
    ? yield* content({ integration: target.integration, model: "ats.application" }, id)
    : null
  return shown === null ? { id } : JSON.parse(shown) as unknown
})

const resultOfWrite = Effect.fnUntraced(function*(write: WriteName, { id, result }: Said, target: OpenStep["target"]) {
  const data: Schema.Codec<unknown, unknown> = writeSchemas[write].data
  if (!answersId(write)) {
    if (id === undefined && result === undefined) return {}
    return yield* misfit(`${write} answers without an id or a result`, "leave both out")
  }
  if (id === undefined && result === undefined) {
    return yield* misfit(
      `the handler goes on with what ${write} answered, and that has an id`,
      "give the id that the other system shows, as the unified API names it"
    )
  }
  if (id !== undefined && !isId(id)) {
    return yield* misfit(
      "this is not the form of an id",
      "an id has at most 1,000 bytes, no control characters, and no space before or behind it"
    )
  }
  const answer = result ?? (yield* known(write, id ?? "", target))
  const decoded = Schema.decodeUnknownResult(data)(answer)
  if (Result.isFailure(decoded)) {
    return yield* misfit(`the result is not what ${write} answers`, 'it is an object with at least an "id"')
  }
  const given = (decoded.success as { readonly id: string }).id
  if (!isId(given) || (id !== undefined && given !== id)) {
    return yield* misfit(
      `the id in the result is missing, malformed or not the id that was given`,
      "give one of the two"
    )
  }
  return decoded.success
})

const answerOf = Effect.fnUntraced(function*(
  { target, write }: OpenStep,
  said: Said
): Effect.fn.Return<Answer, AnswerMisfit | StoreError, Deliveries> {
  if (!said.happened) {
    if (said.id === undefined && said.result === undefined) return { _tag: "DidNotHappen" }
    return yield* misfit("what did not happen has neither an id nor a result", "leave both out")
  }
  if (write !== null) {
    const data = yield* resultOfWrite(write, said, target)
    const created: Readonly<Partial<Record<Model, string>>> = createdBy(write, data as WriteData<typeof write>)
    return { _tag: "Happened", result: JSON.stringify(data), created }
  }
  if (said.id !== undefined) {
    return yield* misfit("a step that is not a write has no id", "give its result instead, as JSON")
  }
  return { _tag: "Happened", result: JSON.stringify(said.result ?? null), created: {} }
})

// ---- answering ----------------------------------------------------------------------------------------------------

const refused = {
  NotDead: {
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
  readonly step: OpenStep
  readonly left: number
}

/** Takes an operator's answer for the open step of this name. */
export const resolve = Effect.fn("Outcomes.resolve")(function*(
  id: number,
  name: string,
  said: Said
): Effect.fn.Return<Resolved, NoDeadLetter | AnswerMisfit | AnswerRefused | StoreError, Deliveries> {
  const deliveries = yield* Deliveries
  const letter = yield* deliveries.story(id)
  if (letter === null) return yield* new NoDeadLetter({ message: `there is no dead letter ${id}` })
  const step = (yield* of(letter)).find((one) => one.name === name)
  if (step === undefined) return yield* new AnswerRefused(refused.Outdated)
  const answer = yield* answerOf(step, said)
  const now = yield* Clock.currentTimeMillis
  // a clock that was set back since says nothing of how long ago it was   (W4)
  const isEarly = Math.abs(now - step.begunAt) < settling
  if (answer._tag === "DidNotHappen" && step.state === "unknown" && isEarly) {
    return yield* new AnswerRefused({
      message: "it was sent less than five minutes ago: what is not shown yet may have happened",
      hint: `look again, and answer from ${new Date(step.begunAt + settling).toISOString()} on`
    })
  }
  const act = {
    at: now,
    act: "deadletters.resolve",
    target: `${letter.plugin}/${letter.handler} ${id}`,
    detail: [
      step.write ?? `step "${step.step}"`,
      pathOf(step) ?? "",
      step.target?.integration ?? "",
      said.happened ? "happened" : "did not happen",
      said.id ?? ""
    ].filter((part) => part !== "").join(" ")
  }
  const answered = yield* deliveries.answer(id, occasionsFor(letter), name, answer, now, act)
  if (answered._tag !== "Answered") return yield* new AnswerRefused(refused[answered._tag])
  yield* Effect.annotateLogs(Effect.logInfo("operator acted"), { act: act.act, target: act.target, detail: act.detail })
  return { step, left: answered.left }
})
