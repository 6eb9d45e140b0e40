/**
 * The port through which the unified API is read. Hides HTTP, authentication, retries, rate limits and whose turn it is.
 *
 * Gotchas
 * - Records come as parsed JSON, unknown: what they mean is capture's business, one bad record never fails a page.
 * - Every call is already retried where that can help; an error here means this reading ends.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { IncrementalModel } from "../api/Lists.ts"

/** Order of service within an account, most urgent first. */
export type Priority = "confirm" | "poll" | "refresh" | "sweep" | "backfill"

export interface PageRequest {
  readonly account: string
  readonly integration: string
  readonly model: IncrementalModel
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

const detail = { code: Schema.NullOr(Schema.String), message: Schema.String }

/** Still rate limited after every retry. `retryAfter`: what the API asked for, ms. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  ...detail,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint =
    "the account's request budget is used up; polling slows down by itself. If it lasts, lengthen the intervals."
}
/** 5xx, a broken connection, a time-out. `retryAfter`: what the API asked for, ms. */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  ...detail,
  retryAfter: Schema.optionalKey(Schema.NullOr(Schema.Number))
}) {
  readonly retryable = true
  readonly hint = "the API or the network is in trouble; Rollcall tries again by itself and loses nothing meanwhile."
}
/** 401, or the address is not allowed: the key is bad. */
export class KeyRefused extends Schema.TaggedError<KeyRefused>()("KeyRefused", detail) {
  readonly retryable = false
  readonly hint = "check ROLLCALL_API_KEY, that it belongs to this region's URL, and the IP allow-list of the account."
}
/** 403: the scope configuration does not allow this read. */
export class PermissionMissing extends Schema.TaggedError<PermissionMissing>()("PermissionMissing", detail) {
  readonly retryable = false
  readonly hint = "enable the model in the account's scope configuration, or leave it out of ROLLCALL_MODELS."
}
/** The integration does not have this model. */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", detail) {
  readonly retryable = false
  readonly hint = "this integration does not offer the model; it is probed daily, or leave it out of ROLLCALL_MODELS."
}
/** The service is still setting the integration up: never to be read as "empty". */
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", detail) {
  readonly retryable = true
  readonly hint = "the first synchronisation of the integration is not finished; reading starts by itself when it is."
}
/** The integration is unknown, switched off or its own login is broken. */
export class Inactive extends Schema.TaggedError<Inactive>()("Inactive", detail) {
  readonly retryable = false
  readonly hint =
    "the customer's connection is broken, off or unknown; check the integration id, reconnect it at the service."
}
/** Our request is wrong; on a request with a cursor: the cursor expired. */
export class Rejected extends Schema.TaggedError<Rejected>()("Rejected", detail) {
  readonly retryable = false
  readonly hint = "the API refused the request itself; a reading in progress starts anew. If it repeats, report it."
}
/** Not JSON, half of it, not the list envelope, or larger than the limit. */
export class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", detail) {
  readonly retryable = true
  readonly hint =
    "the answer is not what the API promises; check that ROLLCALL_API_URL is the API's base address (it ends in /v1) and no proxy answers in its place."
}

/** What the reading does next is in the reason, never in the message. Messages hold no key and no personal data. */
export class SourceError extends Schema.TaggedError<SourceError>()("SourceError", {
  reason: Schema.Union([
    RateLimited,
    Transient,
    KeyRefused,
    PermissionMissing,
    Unsupported,
    NotReady,
    Inactive,
    Rejected,
    Unreadable
  ])
}) {
  override get message(): string {
    return `${this.reason.message} (${this.reason.hint})`
  }
}

export class Source extends Context.Service<Source, {
  /** One page of one list, `include_deleted`, `page_size=250`, unsupported filters ignored. */
  readonly page: (request: PageRequest) => Effect.Effect<Page, SourceError>
}>()("rollcall/source/Source") {}
