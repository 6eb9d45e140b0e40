/** Prints the results of the doctor's checks, as lines or as JSON. */
import * as Effect from "effect/Effect"
import { oneLine, paint } from "../../telemetry/TerminalText.ts"
import { CommandError, print } from "../Process.ts"
import type { CheckResult } from "./CheckResult.ts"

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

export interface ReportOptions {
  readonly json: boolean
}

/** Prints the results of each group as soon as it is complete, or all of them as one JSON object. Fails if there is a problem. */
export const report = Effect.fnUntraced(function*<R>(
  groups: ReadonlyArray<Effect.Effect<ReadonlyArray<CheckResult>, never, R>>,
  { json }: ReportOptions
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
