/**
 * The three ways in which a handler can fail. What happens next is in the kind of failure, never in its message.
 *
 * Gotchas
 * - Messages reach operators and dead letters: name what and where, no personal data.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Try again with back-off; counts as an attempt. */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** Try again, not before `retryAfter`; does not count as an attempt. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", { retryAfter: Schema.Duration }) {
  /** `RateLimited.after("30 seconds")` */
  static after(wait: Duration.Input): RateLimited {
    return new RateLimited({ retryAfter: Duration.fromInputUnsafe(wait) })
  }
}

/** Why the API, or what guards it, will not do a write: to be matched by who can do something else instead. */
export const Refusal = Schema.Literals([
  // nothing was sent: the request itself is wrong
  "Invalid",
  "ApplicationAlreadyExists",
  "EmployeeAlreadyExists",
  "JobClosed",
  "StaffingEntityClosed",
  "Forbidden",
  "Unsupported",
  "Inactive",
  "Unauthorized",
  "Rejected",
  // sent by an earlier attempt, and nobody knows whether it took effect
  "OutcomeUnknown"
])
export type Refusal = typeof Refusal.Type

/** Never succeeds as it stands: straight to the dead letters. */
export class Permanent extends Schema.TaggedError<Permanent>()("Permanent", {
  message: Schema.String,
  /** Given by the capabilities; null where a handler gave up itself. */
  refusal: Schema.NullOr(Refusal).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Of `Invalid`: every fault of the request by JSON Pointer, none of which repeats a value. */
  faults: Schema.Array(Schema.Struct({ path: Schema.String, rule: Schema.String, message: Schema.String })).pipe(
    Schema.withConstructorDefault(Effect.succeed([]))
  )
}) {}

export type HandlerError = Transient | RateLimited | Permanent

/** The same failure, of something whose promise the handler did not await. */
export const asNotAwaited = (what: string, failure: HandlerError): HandlerError => {
  if (failure._tag === "RateLimited") return failure
  const message = `${what} failed, and its promise was not awaited: ${failure.message}`
  return failure._tag === "Transient"
    ? new Transient({ message })
    : new Permanent({ message, refusal: failure.refusal, faults: failure.faults })
}

export const isHandlerError = (error: unknown): error is HandlerError =>
  error instanceof Transient || error instanceof RateLimited || error instanceof Permanent

/** An error that no code of the handler awaited or caught. `message` says how it came about and repeats no value. */
export class Uncaught extends Error {
  override readonly name = "Uncaught"
}
