/**
 * Lets operators resolve the writes and steps of a dead letter whose outcome is unknown. An operator reports "it happened", with
 * an id if the write created a record, or "it did not happen".
 *
 * Invariants
 * 1. The result that a handler gets for a resolved write matches the response schema of the write
 * 2. "It did not happen" is accepted only after the API has had time to show the write   (L5)
 *
 * Gotchas
 * - Only the handler knows the result schema of a step that is not a write, so a reported result is stored without a check. If it
 *   does not match the schema, the delivery becomes a dead letter again, and the operator can correct the result.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Empty, type WriteData, type WriteName, writes, writeSchemas } from "../../api/Writes.ts"
import { createdIds } from "../../domain/Expectation.ts"
import type { Model } from "../../domain/Model.ts"
import type { DeadLetter, Resolution, UnresolvedStep } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { keysWithoutBatch, recordDedupKeyOf } from "../../store/Delivery.ts"
import type { StoreError } from "../../store/Store.ts"
import { settlingMillis } from "../handler/WriteVerification.ts"

/** The outcome that an operator reports. `id`: the id of the created record. `result`: the full result of the write or step. */
export interface ReportedOutcome {
  readonly happened: boolean
  readonly id?: string | undefined
  readonly result?: unknown
}

/** The dead letter does not exist. */
export class DeadLetterNotFound
  extends Schema.TaggedError<DeadLetterNotFound>()("DeadLetterNotFound", { message: Schema.String })
{}

/** The reported outcome does not match the write. Nothing was changed. */
export class InvalidOutcome extends Schema.TaggedError<InvalidOutcome>()("InvalidOutcome", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** The reported outcome cannot be accepted now. Nothing was changed. */
export class OutcomeRejected extends Schema.TaggedError<OutcomeRejected>()("OutcomeRejected", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** All deduplication keys that a step of this dead letter can have. */
const dedupKeysFor = (letter: DeadLetter): ReadonlyArray<string> => {
  const { event, integration, subject } = letter
  const record = subject._tag === "Tick" ? "tick" : event
  const keys = keysWithoutBatch(letter)
  return record === null ? keys : [...keys, recordDedupKeyOf(integration, record)]
}

/** The unresolved steps of a dead letter, oldest first. */
export const openStepsOf = (letter: DeadLetter): Effect.Effect<ReadonlyArray<UnresolvedStep>, StoreError, Deliveries> =>
  Effect.flatMap(Deliveries, ({ unresolvedSteps }) => unresolvedSteps(letter.id, dedupKeysFor(letter)))

/** The path of a write, with the ids filled in; null if it is unknown. */
export const pathOf = ({ target, write }: UnresolvedStep): string | null =>
  write === null || target === null ? null : writes[write].path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => encodeURIComponent(target.params[name]?.toWellFormed() ?? "")
  )

/** Whether the API's response to this write contains the id of the created or changed record. */
export const returnsId = (write: WriteName | null): boolean => write !== null && writeSchemas[write].data !== Empty

// ---- the result ---------------------------------------------------------------------------------------------------

/** Rejects ids with surrounding spaces, which are copying mistakes, and ids that the store cannot save. */
const isId = (text: string): boolean =>
  text !== "" && text === text.trim() && !/\p{Cc}/u.test(text) && text.isWellFormed() &&
  Buffer.byteLength(text) <= 1_000

const invalid = (message: string, hint: string) => new InvalidOutcome({ message, hint })

/** The published content of the record that a write created, or only its id. */
const publishedContent = Effect.fnUntraced(function*(write: WriteName, id: string, target: UnresolvedStep["target"]) {
  const { content } = yield* Deliveries
  const published = write === "createApplication" && target !== null
    ? yield* content({ integration: target.integration, model: "ats.application" }, id)
    : null
  return published === null ? { id } : JSON.parse(published) as unknown
})

const writeResultOf = Effect.fnUntraced(
  function*(write: WriteName, { id, result }: ReportedOutcome, target: UnresolvedStep["target"]) {
    const data: Schema.Codec<unknown, unknown> = writeSchemas[write].data
    if (!returnsId(write)) {
      if (id === undefined && result === undefined) return {}
      return yield* invalid(`${write} returns neither an id nor a result`, "leave both out")
    }
    if (id === undefined && result === undefined) {
      return yield* invalid(
        `the handler needs the result of ${write}, and it contains an id`,
        "report the id that the unified API uses for the object that the write created"
      )
    }
    if (id !== undefined && !isId(id)) {
      return yield* invalid(
        "this is not a valid id",
        "an id has at most 1,000 bytes, no control characters, and no space before or after it"
      )
    }
    const response = result ?? (yield* publishedContent(write, id ?? "", target))
    const decoded = Schema.decodeUnknownResult(data)(response)
    if (Result.isFailure(decoded)) {
      return yield* invalid(
        `the result does not match the response of ${write}`,
        'report an object with at least an "id"'
      )
    }
    const decodedId = (decoded.success as { readonly id: string }).id
    if (!isId(decodedId) || (id !== undefined && decodedId !== id)) {
      return yield* invalid(
        `the id in the result is missing, malformed or different from the reported id`,
        "report either the id or the result"
      )
    }
    return decoded.success
  }
)

const resolutionOf = Effect.fnUntraced(function*(
  { target, write }: UnresolvedStep,
  report: ReportedOutcome
): Effect.fn.Return<Resolution, InvalidOutcome | StoreError, Deliveries> {
  if (!report.happened) {
    if (report.id === undefined && report.result === undefined) return { _tag: "DidNotHappen" }
    return yield* invalid("a write or step that did not happen has neither an id nor a result", "leave both out")
  }
  if (write !== null) {
    const data = yield* writeResultOf(write, report, target)
    const created: Readonly<Partial<Record<Model, string>>> = createdIds(write, data as WriteData<typeof write>)
    return { _tag: "Happened", result: JSON.stringify(data), created }
  }
  if (report.id !== undefined) {
    return yield* invalid("a step that is not a write has no id", "report its result instead, as JSON")
  }
  return { _tag: "Happened", result: JSON.stringify(report.result ?? null), created: {} }
})

// ---- resolving ----------------------------------------------------------------------------------------------------

const rejections = {
  NotDeadLetter: {
    message: "this is no longer a dead letter: it was redriven, discarded or resolved",
    hint: "list the current dead letters with `rollcall deadletters list`"
  },
  Outdated: {
    message: "this outcome is no longer open, or it has changed since it was shown",
    hint: "look at the dead letter again, and report the outcome of what it shows now"
  },
  Running: {
    message: "the attempt that sent it is still running and may still get the response",
    hint: "wait until the attempt has ended, and look at the dead letter again"
  }
} as const

/** `left`: unresolved steps that remain. When none is left, the dead letter is redriven. */
export interface Resolved {
  readonly step: UnresolvedStep
  readonly left: number
}

/** Stores the outcome that an operator reports for the unresolved step with this name. If it was the last one, redrives the dead letter. */
export const resolve = Effect.fn("UnknownOutcomes.resolve")(function*(
  id: number,
  name: string,
  report: ReportedOutcome
): Effect.fn.Return<Resolved, DeadLetterNotFound | InvalidOutcome | OutcomeRejected | StoreError, Deliveries> {
  const deliveries = yield* Deliveries
  const letter = yield* deliveries.deadLetterDetail(id)
  if (letter === null) return yield* new DeadLetterNotFound({ message: `there is no dead letter ${id}` })
  const step = (yield* openStepsOf(letter)).find((one) => one.name === name)
  if (step === undefined) return yield* new OutcomeRejected(rejections.Outdated)
  const resolution = yield* resolutionOf(step, report)
  const now = yield* Clock.currentTimeMillis
  // the absolute value, because the clock may have been set back since the write was sent   (W4)
  const isEarly = Math.abs(now - step.begunAt) < settlingMillis
  if (resolution._tag === "DidNotHappen" && step.state === "unknown" && isEarly) {
    return yield* new OutcomeRejected({
      message: "it was sent less than five minutes ago: the API may not show its effect yet",
      hint: `check the API again, and report the outcome after ${new Date(step.begunAt + settlingMillis).toISOString()}`
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
  const resolved = yield* deliveries.resolve(id, dedupKeysFor(letter), name, resolution, now, action)
  if (resolved._tag !== "Resolved") return yield* new OutcomeRejected(rejections[resolved._tag])
  yield* Effect.annotateLogs(Effect.logInfo("operator acted"), {
    command: action.command,
    target: action.target,
    detail: action.detail
  })
  return { step, left: resolved.left }
})
