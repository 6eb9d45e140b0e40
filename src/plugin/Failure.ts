/**
 * The four ways in which a handler can fail. The kind of failure decides what happens next; the message never does.
 *
 * Gotchas
 * - Messages are shown to operators and stored in dead letters: they name the operation and the place, never personal data.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type DurationInput, parseDuration } from "../domain/DurationText.ts"

/** An error that the handler's code neither awaited nor caught. `message` names the place where it occurred, and contains no value. */
export class Uncaught extends Error {
  override readonly name = "Uncaught"
}

/** The properties of a failure; its message alone is enough. Plain JavaScript may give anything. */
const withMessage = <P extends { readonly message: string }>(
  name: string,
  given: string | P
): P | { message: string } => {
  if (typeof given === "string") return { message: given }
  if (typeof given?.message === "string") return given
  throw new Uncaught(`Plugin.${name} needs a message: write new Plugin.${name}("chat.example answered 410")`)
}

/** The delivery is tried again with back-off, until its attempts are used up. */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  constructor(given: string | { readonly message: string; readonly cause?: unknown }, options?: Schema.MakeOptions) {
    super(withMessage("Transient", given), options)
  }
}

/** The delivery is tried again after `retryAfter`. This uses up none of its attempts. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", { retryAfter: Schema.Duration }) {
  constructor(given: { readonly retryAfter: DurationInput }, options?: Schema.MakeOptions) {
    const retryAfter = Option.getOrThrowWith(
      parseDuration(given?.retryAfter),
      () => new Uncaught(`Plugin.RateLimited needs a duration: write Plugin.RateLimited.after("30 seconds")`)
    )
    super({ retryAfter }, options)
  }

  /** `RateLimited.after("30 seconds")` */
  static after(wait: DurationInput): RateLimited {
    return new RateLimited({ retryAfter: wait })
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
}) {
  constructor(
    given: string | {
      readonly message: string
      readonly refusal?: BlockReason | null
      readonly account?: string | null
    },
    options?: Schema.MakeOptions
  ) {
    super(withMessage("Blocked", given), options)
  }
}

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
}) {
  constructor(
    given: string | {
      readonly message: string
      readonly refusal?: Refusal | null
      readonly faults?: ReadonlyArray<{ readonly path: string; readonly rule: string; readonly message: string }>
    },
    options?: Schema.MakeOptions
  ) {
    super(withMessage("Permanent", given), options)
  }
}

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
