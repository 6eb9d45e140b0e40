/**
 * The port for reading and writing the unified API.
 *
 * Invariants
 * 1. A write is sent again only if the API certainly did nothing, or if its `resendPolicy` is "safe"
 * 2. An invalid request is not sent: it fails with `Invalid`, which lists every problem
 * 3. A write is sent only while it has a slot, and immediately after `SendHooks.before` succeeded
 *
 * Gotchas
 * - Records are returned as valid JSON that is not parsed. Capture reads what it needs, so one bad record never fails a page.
 * - If a page is too large, it and all later pages of the list are requested with fewer rows (S1).
 * - This port retries requests as often as that can help. So callers do not retry: an error ends their run or their write.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type EmployeeForm, StaffingEntityId } from "../api/Forms.ts"
import type { ProficiencyScale } from "../api/Proficiency.ts"
import type { ReadName, readSchemas } from "../api/Reads.ts"
import { ToolCategory } from "../api/Tools.ts"
import type { WriteBody, WriteData, WriteName, WriteParams } from "../api/Writes.ts"
import type { StreamModel } from "../domain/Model.ts"
import type { RawRow } from "../domain/RawRow.ts"

/** The priorities of an account's requests, most urgent first; `write` is for requests of plugins. */
export type Priority = "write" | "confirm" | "poll" | "refresh" | "sweep" | "backfill"

// ---- lists --------------------------------------------------------------------------------------------------------

export interface PageRequest {
  readonly account: string
  readonly integration: string
  readonly model: StreamModel
  readonly priority: Priority
  /** `data.next` of the previous page. */
  readonly cursor: string | null
  /** Server time, in ms. */
  readonly updatedAfter: number | null
  /** Only these ids (at most 250). */
  readonly ids: ReadonlyArray<string> | null
}

export interface Page {
  readonly results: ReadonlyArray<RawRow>
  /** Null if this is the last page, even if the API sent an empty text or no value. */
  readonly next: string | null
  /** The `Date` header, in ms; null if missing or unreadable. */
  readonly serverTime: number | null
  /** When the successful request was sent (our clock, in ms), and how long it took (ms). */
  readonly requestedAt: number
  readonly duration: number
}

// ---- other reads --------------------------------------------------------------------------------------------------

/** The parameters of the four other reads. */
export const readParams = {
  attachments: Schema.Struct({ application_id: Schema.NonEmptyString }),
  employeeForm: Schema.Struct({ staffing_entity_id: Schema.optionalKey(StaffingEntityId) }),
  assessmentPackages: Schema.Struct({}),
  tools: Schema.Struct({ category: ToolCategory })
} as const satisfies Record<ReadName, Schema.Top>

export interface ReadRequest<R extends ReadName> {
  readonly account: string
  /** Null for the tools, because they belong to the account. */
  readonly integration: R extends "tools" ? null : string
  readonly read: R
  readonly params: (typeof readParams)[R]["Type"]
  readonly priority: Priority
}
export type ReadData<R extends ReadName> = (typeof readSchemas)[R]["Type"]

// ---- writes -------------------------------------------------------------------------------------------------------

/**
 * Additional input for checking a body before it is sent: the form that `read` returned for the same staffing entity, or the skill's
 * scale, if the caller knows it. Without a scale, only the API checks the value; the error is then `Rejected`.
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
  /** Present if the request certainly did not reach the API. */
  notSent: Schema.optionalKey(Schema.Literal(true))
}

/** Still rate limited after every retry. `retryAfter`: the wait that the API requested, in ms. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  ...errorFields,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint =
    "the account's rate limit is used up; Rollcall slows down automatically. If this continues, lengthen the intervals."
}
/** 5xx, a broken connection, a time-out or an open circuit. `retryAfter`: requested by the API, or until the probe, in ms. */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  ...errorFields,
  retryAfter: Schema.optionalKey(Schema.NullOr(Schema.Number))
}) {
  readonly retryable = true
  readonly hint = "the API or the network has a problem; Rollcall retries automatically and no changes are lost."
}
/** 401: the key is invalid, or the account does not allow our IP address. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", errorFields) {
  readonly retryable = false
  readonly hint =
    "check three things: the account's key (ROLLCALL_API_KEY, or the secret named in the configuration file), that the key " +
    "belongs to the region of the URL, and the account's IP allow-list."
}
/** 403: the account's scope configuration does not allow this request. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", errorFields) {
  readonly retryable = false
  readonly hint =
    "enable the permission in the account's scope configuration, or remove the model from Rollcall's configuration."
}
/** The integration does not offer this model or endpoint. */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", errorFields) {
  readonly retryable = false
  readonly hint =
    "this integration does not offer it. Rollcall tries a model again once a day; to stop that, remove the model from the " +
    "configuration. With models `auto`, Rollcall stops that itself once the API's tool catalog lists it as unsupported."
}
/** The API is still setting up the integration. This must never be treated as an empty list. */
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", errorFields) {
  readonly retryable = true
  readonly hint =
    "the integration's first synchronization is not finished; Rollcall starts reading automatically afterwards."
}
/** The integration is unknown or switched off, or its login to the third-party system is broken. */
export class Inactive extends Schema.TaggedError<Inactive>()("Inactive", errorFields) {
  readonly retryable = false
  readonly hint =
    "the customer's connection is broken, switched off or unknown; check the integration id and reconnect the integration."
}
/** The API rejected our request. For a request with a cursor this usually means that the cursor expired. */
export class Rejected extends Schema.TaggedError<Rejected>()("Rejected", errorFields) {
  readonly retryable = false
  readonly hint =
    "the API rejected the request; a poll or sweep in progress starts over. If it happens again, report it."
}
/** The response is not JSON, not UTF-8, incomplete, of an unexpected shape, too large or too deeply nested. */
export class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", {
  ...errorFields,
  tooLarge: Schema.optionalKey(Schema.Literal(true))
}) {
  readonly retryable = true
  readonly hint =
    "the response does not match the API's contract; check that the account's URL (ROLLCALL_API_URL, or in the " +
    "configuration file) is the API's base URL (it ends in /v1), and that no proxy answers instead of the API."
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

/** Callers decide by the reason, never by the message. Messages contain no key and no personal data. */
export class SourceError extends Schema.TaggedError<SourceError>()("SourceError", {
  reason: Schema.Union([Transient, ...sharedReasons])
}) {
  override get message(): string {
    return `${this.reason.message} (${this.reason.hint})`
  }
}

/** The request is invalid and was not sent. Lists every problem without repeating a value. */
export class Invalid extends Schema.TaggedError<Invalid>()("Invalid", {
  faults: Schema.Array(Schema.Struct({
    /** JSON Pointer into the request: `/params/job_id`, `/body/candidate/first_name`. */
    path: Schema.String,
    /** `shape`, `size`, `scale`, or the violated rule of the form (`required`, `bounds`, …). */
    rule: Schema.String,
    message: Schema.String
  }))
}) {
  readonly retryable = false
  readonly hint = "correct the request before sending it again; the same request would fail the same check."
  override get message(): string {
    return this.faults.map(({ message, path }) => `${path}: ${message}`).join("; ")
  }
}

/** The job no longer accepts applications. */
export class JobClosed extends Schema.TaggedError<JobClosed>()("JobClosed", errorFields) {
  readonly retryable = false
  readonly hint = "the job is closed; choose another job."
}
/** The candidate has already applied for this job. */
export class ApplicationAlreadyExists
  extends Schema.TaggedError<ApplicationAlreadyExists>()("ApplicationAlreadyExists", errorFields)
{
  readonly retryable = false
  readonly hint = "the application already exists; find it instead of creating it."
}
/** The employee already exists. */
export class EmployeeAlreadyExists
  extends Schema.TaggedError<EmployeeAlreadyExists>()("EmployeeAlreadyExists", errorFields)
{
  readonly retryable = false
  readonly hint = "the employee already exists; find the employee instead of creating one."
}
/** The staffing entity no longer accepts hires. */
export class StaffingEntityClosed
  extends Schema.TaggedError<StaffingEntityClosed>()("StaffingEntityClosed", errorFields)
{
  readonly retryable = false
  readonly hint = "the staffing entity is closed; choose an open one."
}
/** No attempt reached the API: it is unreachable, or the circuit is open. `retryAfter`: ms, if known. */
export class NotSent extends Schema.TaggedError<NotSent>()("NotSent", {
  ...errorFields,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint = "the request did not reach the API, so nothing was changed; try again later."
}
/**
 * The write was sent, and nothing proves that it had no effect: a broken connection, a time-out or an incomplete
 * response. For a write that must not be repeated, every error response without a documented code is included.
 */
export class OutcomeUnknown extends Schema.TaggedError<OutcomeUnknown>()("OutcomeUnknown", errorFields) {
  readonly retryable = false
  readonly hint = "the write may have taken effect; check that before sending it again."
}

/** Why a write did not succeed. For every reason except `OutcomeUnknown` it is certain that the API did nothing. */
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

/** The caller stopped waiting for a slot: the request was not sent. */
export class SlotWaitAborted extends Data.TaggedError("SlotWaitAborted")<{ readonly message: string }> {}

/**
 * Wraps a request's wait for its slot, which may last as long as the account is paused. A caller that must stop its own
 * timer during the wait, or that may have to abort the wait, provides its own wrapper.
 */
export const SlotWait = Context.Reference<(slot: Effect.Effect<void>) => Effect.Effect<void, SlotWaitAborted>>(
  "rollcall/source/SlotWait",
  { defaultValue: () => (slot) => slot }
)

/**
 * Called around each attempt of a write. A write is attempted again after a rate-limit response, after a failure that
 * certainly had no effect, and, if its `resendPolicy` is "safe", after any other failure.
 */
export interface SendHooks<E> {
  /** Runs when the request has its slot, immediately before it is sent. If this fails, nothing is sent. */
  readonly before: Effect.Effect<void, E>
  /**
   * Runs before the next attempt if the attempt that `before` allowed certainly had no effect. It also runs if `before` was interrupted,
   * because `before` may have finished.
   */
  readonly onNoEffect: Effect.Effect<void, E>
}

// ---- port ---------------------------------------------------------------------------------------------------------

export class Source extends Context.Service<Source, {
  /**
   * One page of a list, with `include_deleted` and `page_size=250`; unsupported filters are ignored. The list of
   * assessment packages is always returned whole, whatever the request contains.
   */
  readonly page: (request: PageRequest) => Effect.Effect<Page, SourceError>
  /** One of the four other reads. */
  readonly read: <R extends ReadName>(request: ReadRequest<R>) => Effect.Effect<ReadData<R>, SourceError | Invalid>
  /** One of the twelve writes; returns the response's `data`. A failure of a hook ends the write. */
  readonly write: <W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>
  ) => Effect.Effect<WriteData<W>, WriteError | Invalid | E>
}>()("rollcall/source/Source") {}
