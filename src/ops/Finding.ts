/** What a check found, and how the API is asked for it: with patience, and a verdict for each way to refuse. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SourceError } from "../source/Source.ts"

export interface Finding {
  /** `stream greenhouse:acme/ats.tag` */
  readonly check: string
  readonly verdict: "ok" | "warning" | "problem"
  readonly message: string
  /** What to do about it. */
  readonly hint: string | null
}

/** One question may take so long, its retries included. */
const patience = Duration.seconds(15)

const finding = (verdict: "warning" | "problem", check: string, message: string, hint: string): Finding => ({
  check,
  verdict,
  message,
  hint
})
export const ok = (check: string, message: string): Finding => ({ check, verdict: "ok", message, hint: null })
export const warning = (check: string, message: string, hint: string) => finding("warning", check, message, hint)
export const problem = (check: string, message: string, hint: string) => finding("problem", check, message, hint)

/** What keeps a whole account from being read. */
export const ofAccount: ReadonlySet<SourceError["reason"]["_tag"]> = new Set(["KeyRefused", "Transient", "Unreadable"])
/** What blocks one stream, and needs nobody to act. */
export const mild: ReadonlySet<SourceError["reason"]["_tag"]> = new Set(["NotReady", "RateLimited", "Unsupported"])

const unreached = "Check the account's address and the network in between, or try again later"

/** The answer, or what its lack means. */
export const asked = <A>(
  check: string,
  question: Effect.Effect<A, SourceError>,
  verdictOf: (tag: SourceError["reason"]["_tag"]) => "warning" | "problem"
): Effect.Effect<Result.Result<A, Finding>> =>
  question.pipe(
    Effect.mapError(({ reason }) =>
      finding(verdictOf(reason._tag), check, reason.message, reason._tag === "Transient" ? unreached : reason.hint)
    ),
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () => Effect.fail(problem(check, `no answer within ${Duration.format(patience)}`, unreached))
    }),
    Effect.result
  )
