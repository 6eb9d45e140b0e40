/**
 * Turns the failure of an attempt into the reason and message that are stored and shown.
 *
 * Gotchas
 * - The message of an unexpected error may contain values, such as personal data. Only parts are kept that the JavaScript engine wrote and
 *   that contain none   (I11).
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import { placeOf } from "../../domain/ErrorPlace.ts"
import { type Blocked, type HandlerError, Uncaught } from "../../plugin/Failure.ts"
import type { Failure } from "../../store/Delivery.ts"

/** The attempt took longer than its handler's time-out. */
export class TimedOut {
  readonly _tag = "TimedOut"
}

/**
 * The beginnings of the engine's messages that contain expressions of the handler's code. Many other messages contain values: `Cannot read
 * properties of undefined` continues with the name of the property, which may be a value such as an address, and
 * `Reflect.construct(name, [])` puts the name in front of `is not a constructor`.
 */
const engineMessages = [
  /^(?:\(intermediate value\)|[\w$.?[\]])+ is not (?:a function|iterable|defined)\b/,
  /^Cannot (?:read|set) properties of (?:undefined|null)\b/,
  /^Cannot convert undefined or null to object$/,
  /^Class constructor (?:Transient|RateLimited|Blocked|Permanent) cannot be invoked without 'new'$/
]

/** True if a function of the engine threw the error, because its message then quotes the value of an argument: `Object.groupBy(rows, name)`. */
const namesArgument = ({ message, stack }: Error): boolean =>
  /^[^\n]* is not a function/.test(message) &&
  typeof stack === "string" && /^[^\n]*\n +at [^\n]*\(<anonymous>\)(?:\n|$)/.test(stack)

const engineMessageOf = (error: Error): string | undefined =>
  namesArgument(error)
    ? undefined
    : engineMessages.map((pattern) => pattern.exec(error.message)?.[0]).find((found) => found !== undefined)

/**
 * The name of the error. Code may copy the properties of a response into an error, so a name that is not the one of the error's class is
 * shown only if it looks like the name of an error.
 */
const nameOf = (error: Error): string => {
  const { constructor, name } = error
  const isOfClass = !Object.hasOwn(error, "name") || name === constructor.name
  return isOfClass || /^[A-Z]\w{0,60}(?:Error|Exception)$/.test(name) ? name : "Error"
}

const describeReadable = (defect: unknown): string => {
  if (!(defect instanceof Error)) return "the handler threw a value that is not an Error"
  if (defect instanceof Uncaught) {
    return defect.cause === undefined ? defect.message : `${defect.message}: ${describeDefect(defect.cause)}`
  }
  const isOfEngine = defect instanceof TypeError || defect instanceof ReferenceError
  const message = isOfEngine ? engineMessageOf(defect) : undefined
  const place = placeOf(defect)
  return `${nameOf(defect)}${message === undefined ? "" : `: ${message}`}${place === undefined ? "" : ` at ${place}`}`
}

const describeDefect = (defect: unknown): string => {
  try {
    return describeReadable(defect)
  } catch {
    // a property of the error throws, or has a value that cannot become a text
    return "the handler threw an error that cannot be read"
  }
}

const failure = (reason: Failure["reason"], message: string, at: number): Failure => ({
  reason,
  message,
  refusal: null,
  faults: [],
  at
})

/** Why the attempt failed: the first reason that is not an interruption. */
const reasonOf = ({ reasons }: Cause.Cause<HandlerError | TimedOut>) => reasons.find(({ _tag }) => _tag !== "Interrupt")

const errorOf = (cause: Cause.Cause<HandlerError | TimedOut>): HandlerError | TimedOut | null => {
  const reason = reasonOf(cause)
  return reason?._tag === "Fail" ? reason.error : null
}

export const failureOf = (
  cause: Cause.Cause<HandlerError | TimedOut>,
  timeout: Duration.Duration,
  at: number
): Failure => {
  const reason = reasonOf(cause)
  if (reason?._tag === "Fail") {
    const { error } = reason
    switch (error._tag) {
      case "TimedOut":
        return failure("TimedOut", `the handler did not finish within ${Duration.format(timeout)}`, at)
      case "RateLimited":
        return failure("RateLimited", "rate limited; the delivery is tried again later", at)
      case "Blocked":
        return { reason: "Blocked", message: error.message, refusal: error.refusal, faults: [], at }
      case "Permanent":
        return { reason: "Permanent", message: error.message, refusal: error.refusal, faults: error.faults, at }
      case "Transient":
        return failure("Transient", error.message, at)
    }
  }
  return failure(
    "Defect",
    reason?._tag === "Die" ? describeDefect(reason.defect) : "the handler interrupted itself",
    at
  )
}

/** For a delivery that was running each time that the process ended unexpectedly, the last time in isolation. It is not run again. */
export const processEndedFailure = (times: number, at: number): Failure =>
  failure(
    "ProcessEnded",
    `the process ended or was blocked ${times} times while this delivery ran, the last time with no other delivery running`,
    at
  )

/** For an isolated delivery that waited too long for a request slot, because other deliveries wait for it. */
export const isolatedWaitFailure = (at: number): Failure =>
  failure("RateLimited", "an isolated delivery waited too long for a request slot; it is tried again later", at)

/** For a delivery of an event that a chain of more than `plugins` plugins caused. It is not run. */
export const loopFailure = (plugins: number, at: number): Failure =>
  failure("LoopDetected", `more than ${plugins} plugins in a row reacted to each other's writes before this event`, at)

/** The wait of a `RateLimited` failure, in ms; 0 for other failures. */
export const retryAfterOf = (cause: Cause.Cause<HandlerError | TimedOut>): number => {
  const error = errorOf(cause)
  return error?._tag === "RateLimited" ? Duration.toMillis(error.retryAfter) : 0
}

/** The failure that `failureOf` shows, if it is `Blocked`. */
export const blockedOf = (cause: Cause.Cause<HandlerError | TimedOut>): Blocked | null => {
  const error = errorOf(cause)
  return error?._tag === "Blocked" ? error : null
}
