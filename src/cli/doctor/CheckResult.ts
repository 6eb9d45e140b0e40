/** The results of the doctor's checks: how one is made, also from a request to the unified API, and how all are printed. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SourceError } from "../../source/Source.ts"
import { oneLine, paint } from "../../telemetry/TerminalText.ts"
import { CommandError, print } from "../terminal/Process.ts"

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

// ---- the report ---------------------------------------------------------------------------------------------------

const colors = { ok: "green", warning: "yellow", problem: "red" } as const
const sentence = (text: string): string =>
  text.replace(/\.$/, "").replace(/^[a-z]+(?= )/, (word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)

/** `problem  account eu: status 401. Check the key` */
const resultLine = ({ check, hint, message, status }: CheckResult): string =>
  oneLine(
    `${paint(colors[status], status.padEnd(7))}  ${check}: ${message}${hint === null ? "" : `. ${sentence(hint)}`}`
  )

const streamCheck = /^stream ([^/]+)\/(\S+)$/

/** Makes one result of the streams of an integration that have the same fault, so that the text stays short. */
const groupStreamFaults = (results: ReadonlyArray<CheckResult>): ReadonlyArray<CheckResult> =>
  [
    ...Map.groupBy(results, (result) => {
      const { check, hint, message, status } = result
      const [, integration] = streamCheck.exec(check) ?? []
      return status === "ok" || integration === undefined
        ? result
        : JSON.stringify([status, integration, message, hint])
    }).values()
  ].map((group) => {
    const first = group[0]!
    if (group.length === 1) return first
    const [, integration] = streamCheck.exec(first.check) ?? []
    const models = group.map(({ check }) => streamCheck.exec(check)?.[2])
    return { ...first, check: `integration ${integration} (${models.length} models: ${models.join(", ")})` }
  })

/** Prints the results of each group as soon as it is complete, or all of them as one JSON object. Fails if there is a problem. */
export const report = Effect.fnUntraced(function*<R>(
  groups: ReadonlyArray<Effect.Effect<ReadonlyArray<CheckResult>, never, R>>,
  json: boolean
): Effect.fn.Return<void, CommandError, R> {
  const results: Array<CheckResult> = []
  for (const group of groups) {
    const finished = yield* group
    results.push(...finished)
    if (!json && finished.length > 0) yield* print(groupStreamFaults(finished).map(resultLine).join("\n"))
  }
  const isProblem = ({ status }: CheckResult) => status === "problem"
  const problems = groupStreamFaults(results).filter(isProblem).length
  if (json) yield* print(JSON.stringify({ ok: problems === 0, checks: results }))
  if (problems === 0) return
  const message = problems === 1 ? "1 check found a problem" : `${problems} checks found problems`
  return yield* new CommandError({ message })
})
