/**
 * The four ways in which a handler can fail. The kind of failure decides what happens next; the message never does.
 *
 * Gotchas
 * - Messages are shown to operators and stored in dead letters: they name the operation and the place, never personal data.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type DurationInput, toDuration } from "../domain/DurationText.ts"

/** The delivery is tried again with back-off, until its attempts are used up. */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** The delivery is tried again after `retryAfter`. This uses up none of its attempts. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", { retryAfter: Schema.Duration }) {
  /** `RateLimited.after("30 seconds")` */
  static after(wait: DurationInput): RateLimited {
    return new RateLimited({ retryAfter: toDuration(wait) })
  }
}

/**
 * Why the API accepts no requests now: the account's key, the integration's connection, a set-up that is not finished, or a gateway,
 * firewall or proxy that refuses the requests in its place.
 */
export const BlockReason = Schema.Literals(["Unauthorized", "Inactive", "NotReady", "Intercepted"])
export type BlockReason = typeof BlockReason.Type

/**
 * The account or the integration accepts no requests now, whatever they contain, and only a person or the API can change that. The delivery
 * waits: it is tried about once a minute, without limit. This uses up none of its attempts.
 */
export class Blocked extends Schema.TaggedError<Blocked>()("Blocked", {
  message: Schema.String,
  /** Set by the capabilities; null if the handler itself raised the failure. */
  refusal: Schema.NullOr(BlockReason).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Set by the capabilities if the whole account accepts no requests. */
  account: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null)))
}) {}

/**
 * Why the API, or a check before it, rejected a request. A handler can match on it to do something else instead. A request that fails
 * for a reason that is not listed here is tried again: its error is `Transient`, `RateLimited` or `Blocked`.
 */
export const Refusal = Schema.Literals([
  // nothing was sent, because the request itself is invalid
  "Invalid",
  // nothing was sent, because the plugin does not declare the write in `needs`
  "Undeclared",
  "ApplicationAlreadyExists",
  "EmployeeAlreadyExists",
  "JobClosed",
  "StaffingEntityClosed",
  "Forbidden",
  "Unsupported",
  // the handler names an integration that is not configured
  "Inactive",
  "Rejected",
  // an earlier attempt sent the write, and its outcome is unknown
  "OutcomeUnknown"
])
export type Refusal = typeof Refusal.Type

/** Retrying cannot help. The delivery becomes a dead letter at once. */
export class Permanent extends Schema.TaggedError<Permanent>()("Permanent", {
  message: Schema.String,
  /** Set by the capabilities; null if the handler itself raised the failure. */
  refusal: Schema.NullOr(Refusal).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** For `Invalid`: every fault of the request, located by JSON Pointer. No fault contains a value of the request. */
  faults: Schema.Array(Schema.Struct({ path: Schema.String, rule: Schema.String, message: Schema.String })).pipe(
    Schema.withConstructorDefault(Effect.succeed([]))
  )
}) {}

export type HandlerError = Transient | RateLimited | Blocked | Permanent

/** The same failure, with a message that explains that the handler did not await the promise of `call`. */
export const asNotAwaited = (call: string, failure: HandlerError): HandlerError => {
  if (failure._tag === "RateLimited") return failure
  const message = `${call} failed, and its promise was not awaited: ${failure.message}`
  if (failure._tag === "Transient") return new Transient({ message })
  return failure._tag === "Blocked"
    ? new Blocked({ message, refusal: failure.refusal, account: failure.account })
    : new Permanent({ message, refusal: failure.refusal, faults: failure.faults })
}

export const isHandlerError = (error: unknown): error is HandlerError =>
  error instanceof Transient || error instanceof RateLimited || error instanceof Blocked || error instanceof Permanent

/** An error that the handler's code neither awaited nor caught. `message` names the place where it occurred, and contains no value. */
export class Uncaught extends Error {
  override readonly name = "Uncaught"
}
