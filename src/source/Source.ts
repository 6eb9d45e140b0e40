/**
 * The port through which the unified API is read and written. Hides HTTP, authentication, retries, rate limits and
 * whose turn it is.
 *
 * Invariants
 * 1. A write is sent again only where it is known that nothing was done, or where the table of writes says "safe"
 * 2. What is known to be wrong is not sent: `Invalid`, with every fault
 * 3. A write leaves only while it has its turn, and right after `SendHooks.before` allowed it
 *
 * Gotchas
 * - Records come as parsed JSON, unknown: what they mean is capture's business, one bad record never fails a page.
 * - A page that is too large is asked for again with fewer rows, and so are all after it (S1).
 * - Every call is already retried where that can help; an error here means this reading, or this write, ends.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type EmployeeForm, StaffingEntityId } from "../api/Forms.ts"
import type { ProficiencyScale } from "../api/Proficiency.ts"
import type { ReadName, readSchemas } from "../api/Reads.ts"
import { ToolCategory } from "../api/Tools.ts"
import type { WriteBody, WriteData, WriteName, WriteParams } from "../api/Writes.ts"
import type { StreamModel } from "../domain/Model.ts"

/** Order of service within an account, most urgent first; `write` is for what plugins do. */
export type Priority = "write" | "confirm" | "poll" | "refresh" | "sweep" | "backfill"

// ---- lists --------------------------------------------------------------------------------------------------------

export interface PageRequest {
  readonly account: string
  readonly integration: string
  readonly model: StreamModel
  readonly priority: Priority
  /** `data.next` of the page before. */
  readonly cursor: string | null
  /** Server time, ms. */
  readonly updatedAfter: number | null
  /** Only these ids (at most 250). */
  readonly ids: ReadonlyArray<string> | null
}

export interface Page {
  readonly results: ReadonlyArray<unknown>
  /** null = last page (absent and empty count as null). */
  readonly next: string | null
  /** The `Date` header, ms; null if missing or unreadable. */
  readonly serverTime: number | null
  /** Our clock when the request that was answered left, ms, and how long it took, ms. */
  readonly requestedAt: number
  readonly duration: number
}

// ---- other reads --------------------------------------------------------------------------------------------------

/** What each of the four other reads is asked for. */
export const readParams = {
  attachments: Schema.Struct({ application_id: Schema.NonEmptyString }),
  employeeForm: Schema.Struct({ staffing_entity_id: Schema.optionalKey(StaffingEntityId) }),
  assessmentPackages: Schema.Struct({}),
  tools: Schema.Struct({ category: ToolCategory })
} as const satisfies Record<ReadName, Schema.Top>

export interface ReadRequest<R extends ReadName> {
  readonly account: string
  /** null for the tools: they belong to the account. */
  readonly integration: R extends "tools" ? null : string
  readonly read: R
  readonly params: (typeof readParams)[R]["Type"]
  readonly priority: Priority
}
export type ReadData<R extends ReadName> = (typeof readSchemas)[R]["Type"]

// ---- writes -------------------------------------------------------------------------------------------------------

/**
 * What a body is held against before it is sent, beside its schema: the form that `read` gave, for the same staffing
 * entity; the skill's scale, if the caller knows it. Without a scale the API checks alone and answers `Rejected`.
 */
type WriteCheckContext<W extends WriteName> = W extends "createEmployee" ? { readonly form: EmployeeForm }
  : W extends "rateSkill" | "expectSkill" ? { readonly scale?: ProficiencyScale }
  : unknown

export type WriteRequest<W extends WriteName> = {
  readonly account: string
  readonly integration: string
  readonly write: W
  readonly params: WriteParams<W>
  readonly body: WriteBody<W>
} & WriteCheckContext<W>

// ---- errors -------------------------------------------------------------------------------------------------------

const errorFields = {
  code: Schema.NullOr(Schema.String),
  message: Schema.String,
  /** Present where the request did not reach the API. */
  notSent: Schema.optionalKey(Schema.Literal(true))
}

/** Still rate limited after every retry. `retryAfter`: what the API asked for, ms. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  ...errorFields,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint =
    "the account's request budget is used up; polling slows down by itself. If it lasts, lengthen the intervals."
}
/** 5xx, a broken connection, a time-out, an open circuit. `retryAfter`: what the API asked for, or stays open, ms. */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  ...errorFields,
  retryAfter: Schema.optionalKey(Schema.NullOr(Schema.Number))
}) {
  readonly retryable = true
  readonly hint = "the API or the network is in trouble; Rollcall tries again by itself and loses nothing meanwhile."
}
/** 401, or the address is not allowed: the key is bad. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", errorFields) {
  readonly retryable = false
  readonly hint =
    "check the account's key (ROLLCALL_API_KEY, or the secret that the configuration file names), that it belongs to this region's URL, and the IP allow-list of the account."
}
/** 403: the scope configuration does not allow this read. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", errorFields) {
  readonly retryable = false
  readonly hint = "enable it in the account's scope configuration, or leave the model out of the configuration."
}
/** The integration does not have this model. */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", errorFields) {
  readonly retryable = false
  readonly hint = "this integration does not offer it; a model is probed daily, or leave it out of the configuration."
}
/** The service is still setting the integration up: never to be read as "empty". */
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", errorFields) {
  readonly retryable = true
  readonly hint = "the first synchronisation of the integration is not finished; reading starts by itself when it is."
}
/** The integration is unknown, switched off or its own login is broken. */
export class Inactive extends Schema.TaggedError<Inactive>()("Inactive", errorFields) {
  readonly retryable = false
  readonly hint =
    "the customer's connection is broken, off or unknown; check the integration id, reconnect it at the service."
}
/** Our request is wrong; on a request with a cursor: the cursor expired. */
export class Rejected extends Schema.TaggedError<Rejected>()("Rejected", errorFields) {
  readonly retryable = false
  readonly hint = "the API refused the request itself; a reading in progress starts anew. If it repeats, report it."
}
/** Not JSON, not UTF-8, half of it, not what was asked for, too large or too deeply nested. */
export class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", {
  ...errorFields,
  tooLarge: Schema.optionalKey(Schema.Literal(true))
}) {
  readonly retryable = true
  readonly hint =
    "the answer is not what the API promises; check that the account's URL (ROLLCALL_API_URL, or in the configuration file) is the API's base address (it ends in /v1) and no proxy answers in its place."
}

const sharedReasons = [
  RateLimited,
  Unauthorized,
  Forbidden,
  Unsupported,
  NotReady,
  Inactive,
  Rejected,
  Unreadable
] as const

/** What the reading does next is in the reason, never in the message. Messages hold no key and no personal data. */
export class SourceError extends Schema.TaggedError<SourceError>()("SourceError", {
  reason: Schema.Union([Transient, ...sharedReasons])
}) {
  override get message(): string {
    return `${this.reason.message} (${this.reason.hint})`
  }
}

/** Nothing was sent: every fault of the request, none of which repeats a value. */
export class Invalid extends Schema.TaggedError<Invalid>()("Invalid", {
  faults: Schema.Array(Schema.Struct({
    /** JSON Pointer into the request: `/params/job_id`, `/body/candidate/first_name`. */
    path: Schema.String,
    /** `shape`, `size`, `scale`, or the form's rule that is broken (`required`, `bounds`, …). */
    rule: Schema.String,
    message: Schema.String
  }))
}) {
  readonly retryable = false
  readonly hint = "correct what is sent; the same request would be refused again."
  override get message(): string {
    return this.faults.map(({ message, path }) => `${path}: ${message}`).join("; ")
  }
}

/** The job takes no applications any more. */
export class JobClosed extends Schema.TaggedError<JobClosed>()("JobClosed", errorFields) {
  readonly retryable = false
  readonly hint = "the job is closed; apply to another one."
}
/** The candidate has applied for this job before. */
export class ApplicationAlreadyExists
  extends Schema.TaggedError<ApplicationAlreadyExists>()("ApplicationAlreadyExists", errorFields)
{
  readonly retryable = false
  readonly hint = "the application is there already; look for it instead of creating it."
}
/** The employee exists. */
export class EmployeeAlreadyExists
  extends Schema.TaggedError<EmployeeAlreadyExists>()("EmployeeAlreadyExists", errorFields)
{
  readonly retryable = false
  readonly hint = "the employee is there already; look for it instead of creating it."
}
/** Nobody can be hired into this staffing entity any more. */
export class StaffingEntityClosed
  extends Schema.TaggedError<StaffingEntityClosed>()("StaffingEntityClosed", errorFields)
{
  readonly retryable = false
  readonly hint = "the staffing entity is closed; choose an open one."
}
/** Nothing was done, after every retry: nobody at the address, or an open circuit. `retryAfter`: ms, if known. */
export class NotSent extends Schema.TaggedError<NotSent>()("NotSent", {
  ...errorFields,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint = "the API could not be reached and has done nothing; try again later."
}
/**
 * Sent, and nothing proves that it did not take effect: a broken connection, a time-out, half an answer; of a write that
 * must not be repeated any refusal without a code that the API publishes.
 */
export class OutcomeUnknown extends Schema.TaggedError<OutcomeUnknown>()("OutcomeUnknown", errorFields) {
  readonly retryable = false
  readonly hint = "the write may have taken effect; look before it is sent again."
}

/** Why a write did not succeed. Of all reasons but `OutcomeUnknown` it is certain that nothing was done. */
export class WriteError extends Schema.TaggedError<WriteError>()("WriteError", {
  reason: Schema.Union([
    NotSent,
    OutcomeUnknown,
    JobClosed,
    ApplicationAlreadyExists,
    EmployeeAlreadyExists,
    StaffingEntityClosed,
    ...sharedReasons
  ])
}) {
  override get message(): string {
    return `${this.reason.message} (${this.reason.hint})`
  }
}

// ---- waiting and sending ------------------------------------------------------------------------------------------

/** The caller stopped waiting for the request's turn: nothing was sent. */
export class SlotWaitAborted extends Data.TaggedError("SlotWaitAborted")<{ readonly message: string }> {}

/**
 * Runs the wait of a request for its turn, which may last as long as the account is paused. A caller whose time must not
 * pass meanwhile, or who may have to stop waiting, provides its own.
 */
export const SlotWait = Context.Reference<(turn: Effect.Effect<void>) => Effect.Effect<void, SlotWaitAborted>>(
  "rollcall/source/SlotWait",
  { defaultValue: () => (turn) => turn }
)

/**
 * Called around each try of a write. A write is tried again after a refusal for the rate limit, after a failure of which
 * it is certain that nothing was done, and, if that is safe, after any other.
 */
export interface SendHooks<E> {
  /** Runs once the request has its turn, as the last thing before it leaves. If this fails, nothing is sent. */
  readonly before: Effect.Effect<void, E>
  /**
   * Runs when it is certain that the API did nothing of what `before` allowed, before anything is tried again; also where
   * `before` was interrupted, whether it had come to its end or not.
   */
  readonly onNoEffect: Effect.Effect<void, E>
}

/** For writes that nobody has to write down. */
export const noHooks: SendHooks<never> = { before: Effect.void, onNoEffect: Effect.void }

// ---- port ---------------------------------------------------------------------------------------------------------

const unsupported = (what: string) => new Unsupported({ code: null, message: `${what} is not offered` })

export class Source extends Context.Service<Source, {
  /**
   * One page of one list, `include_deleted`, `page_size=250`, unsupported filters ignored. The assessment packages come
   * whole, whatever is asked for.
   */
  readonly page: (request: PageRequest) => Effect.Effect<Page, SourceError>
  /** One of the four other reads. */
  readonly read: <R extends ReadName>(request: ReadRequest<R>) => Effect.Effect<ReadData<R>, SourceError | Invalid>
  /** One of the twelve writes; `data` of the answer. A failure of a hook ends the write. */
  readonly write: <W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>
  ) => Effect.Effect<WriteData<W>, WriteError | Invalid | E>
}>()("rollcall/source/Source") {}

/** A source that has lists and nothing else: every other read and every write is `Unsupported`. */
export const listsOnly = (page: Source["Service"]["page"]): Source["Service"] => ({
  page,
  read: ({ read }) => Effect.fail(new SourceError({ reason: unsupported(read) })),
  write: ({ write }) => Effect.fail(new WriteError({ reason: unsupported(write) }))
})
