/** What a check found, and how the API is asked for it: with patience, and a verdict for each way to refuse. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SourceError } from "../../source/Source.ts"

export interface CheckResult {
  /** `stream greenhouse:acme/ats.tag` */
  readonly check: string
  readonly status: "ok" | "warning" | "problem"
  readonly message: string
  /** What to do about it. */
  readonly hint: string | null
}

/** One question may take so long, its retries included. */
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

/** What keeps a whole account from being read. */
export const accountErrors: ReadonlySet<SourceError["reason"]["_tag"]> = new Set([
  "Unauthorized",
  "Transient",
  "Unreadable"
])
/** What blocks one stream, and needs nobody to act. */
export const harmlessErrors: ReadonlySet<SourceError["reason"]["_tag"]> = new Set([
  "NotReady",
  "RateLimited",
  "Unsupported"
])

const unreachableHint = "Check the account's address and the network in between, or try again later"

/** The answer, or what its lack means. */
export const checkRequest = <A>(
  check: string,
  question: Effect.Effect<A, SourceError>,
  verdictOf: (tag: SourceError["reason"]["_tag"]) => "warning" | "problem"
): Effect.Effect<Result.Result<A, CheckResult>> =>
  question.pipe(
    Effect.mapError(({ reason }) =>
      makeResult(
        verdictOf(reason._tag),
        check,
        reason.message,
        reason._tag === "Transient" ? unreachableHint : reason.hint
      )
    ),
    Effect.timeoutOrElse({
      duration: requestTimeout,
      orElse: () => Effect.fail(problem(check, `no answer within ${Duration.format(requestTimeout)}`, unreachableHint))
    }),
    Effect.result
  )
