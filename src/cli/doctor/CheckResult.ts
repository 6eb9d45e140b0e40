/** The result of one of the doctor's checks. Also makes a check from a request to the unified API, with a time limit. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SourceError } from "../../source/Source.ts"

export interface CheckResult {
  /** `stream greenhouse:acme/ats.tag` */
  readonly check: string
  readonly status: "ok" | "warning" | "problem"
  readonly message: string
  /** The next action for the operator; null if the check passes. */
  readonly hint: string | null
}

/** The time limit of one request, including its retries. */
const requestTimeout = Duration.seconds(15)

const makeResult = (status: "warning" | "problem", check: string, message: string, hint: string): CheckResult => ({
  check,
  status,
  message,
  hint
})
export const ok = (check: string, message: string): CheckResult => ({ check, status: "ok", message, hint: null })
export const warning = (check: string, message: string, hint: string) => makeResult("warning", check, message, hint)
export const problem = (check: string, message: string, hint: string) => makeResult("problem", check, message, hint)

/** Errors that affect every request to an account. */
export const accountErrors: ReadonlySet<SourceError["reason"]["_tag"]> = new Set([
  "Unauthorized",
  "Transient",
  "Unreadable"
])
/** Errors of one stream that need no action: they are temporary, or the tool does not offer the model. */
export const harmlessErrors: ReadonlySet<SourceError["reason"]["_tag"]> = new Set([
  "NotReady",
  "RateLimited",
  "Unsupported"
])

const unreachableHint = "Check the URL of the account and the network between, or try again later"

/** Sends a request. Returns the response, or the check result for its failure. */
export const checkRequest = <A>(
  check: string,
  request: Effect.Effect<A, SourceError>,
  statusOf: (tag: SourceError["reason"]["_tag"]) => "warning" | "problem"
): Effect.Effect<Result.Result<A, CheckResult>> =>
  request.pipe(
    Effect.mapError(({ reason }) =>
      makeResult(
        statusOf(reason._tag),
        check,
        reason.message,
        reason._tag === "Transient" && reason.intercepted !== true ? unreachableHint : reason.hint
      )
    ),
    Effect.timeoutOrElse({
      duration: requestTimeout,
      orElse: () =>
        Effect.fail(
          problem(check, `the API did not respond within ${Duration.format(requestTimeout)}`, unreachableHint)
        )
    }),
    Effect.result
  )
