/** Prints each attempt of a plugin's handlers: the handler, the record (or the batch, or the tick), and the result. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { fileURLToPath } from "node:url"
import { timeoutOf } from "../../delivery/handler/Job.ts"
import { Blocked, type HandlerError, isHandlerError, Permanent, RateLimited } from "../../plugin/Failure.ts"
import type { Handler, Plugin } from "../../plugin/Plugin.ts"
import { oneLine, paint, timeOfDay } from "../../telemetry/TerminalText.ts"
import { formatPlural } from "../terminal/Tables.ts"

/** One attempt of a handler. */
export interface Attempt {
  /** When it ended, in ms. */
  readonly at: number
  readonly handler: string
  /** The id of the record, the number of events, or `tick`. */
  readonly subject: string
  readonly succeeded: boolean
  readonly result: string
  readonly details: ReadonlyArray<string>
}

type Show = (attempt: Attempt) => Effect.Effect<void>

/** `14:02:12Z  ats.tag.created  4uSvWq  done`; the details are on lines of their own. */
export const attemptText = ({ at, details, handler, result, subject, succeeded }: Attempt): string =>
  [
    [
      paint("gray", timeOfDay(at)),
      paint("cyan", handler.padEnd(29)),
      subject.padEnd(24),
      paint(succeeded ? "green" : "red", result)
    ].join("  "),
    ...details
  ].join("\n")

const recordIdOf = (input: unknown): string | null => {
  const id: unknown = typeof input === "object" && input !== null ? Reflect.get(input, "recordId") : null
  return typeof id === "string" ? id : null
}

const subjectOf = (input: unknown): string =>
  Array.isArray(input) ? formatPlural(input.length, "event") : recordIdOf(input) ?? "tick"

const own = ["src", "dist"].map((folder) => fileURLToPath(new URL(`../../../${folder}/`, import.meta.url)))
const isForeign = (line: string): boolean =>
  /^\s+at /.test(line) && [...own, "/node_modules/", "node:"].some((place) => line.includes(place))

/** A stack with the calls of the plugin only. */
const stackLines = (cause: Cause.Cause<unknown>): ReadonlyArray<string> =>
  Cause.pretty(cause).split("\n").filter((line) => !isForeign(line))

const indented = (lines: ReadonlyArray<string>): ReadonlyArray<string> => lines.map((line) => `    ${line}`)

/** The first line describes what happens next. */
const failureLines = (failure: HandlerError): ReadonlyArray<string> => {
  if (failure instanceof RateLimited) return [`tried again in ${Duration.format(failure.retryAfter)}`]
  const message = oneLine(failure.message)
  if (failure instanceof Blocked) return [`tried again every minute: ${message}`]
  if (!(failure instanceof Permanent)) return [`tried again: ${message}`]
  const faults = failure.faults.map(({ message, path }) => `${path} ${message}`)
  return [`dead letter: ${message}`, ...indented(faults)]
}

/** A defect is a bug in the handler, so it has its stack. `took`: in ms. */
const resultLines = (
  exit: Exit.Exit<void, unknown>,
  took: number,
  timeout: Duration.Duration
): ReadonlyArray<string> => {
  if (Exit.isSuccess(exit)) return ["done"]
  const failure = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (Cause.hasInterruptsOnly(exit.cause)) {
    return [
      took < Duration.toMillis(timeout)
        ? "interrupted"
        : `tried again: the handler did not end within its timeout of ${Duration.format(timeout)}`
    ]
  }
  if (isHandlerError(failure)) return failureLines(failure)
  return ["a bug in the handler", ...indented(stackLines(exit.cause))]
}

const withHandlerReport = (handler: Handler<unknown>, show: Show): Handler<unknown> => ({
  ...handler,
  run: (input, config) =>
    Effect.flatMap(
      Clock.currentTimeMillis,
      (startedAt) =>
        Effect.onExit(handler.run(input, config), (exit) =>
          Effect.flatMap(Clock.currentTimeMillis, (at) => {
            const [result = "", ...details] = resultLines(exit, at - startedAt, timeoutOf(handler))
            const succeeded = Exit.isSuccess(exit)
            return show({ at, handler: handler.name, subject: subjectOf(input), succeeded, result, details })
          }))
    )
})

/** The same plugin, whose handlers show each attempt. */
export const withReport = (plugin: Plugin<unknown>, show: Show): Plugin<unknown> => ({
  ...plugin,
  handlers: plugin.handlers.map((handler) => withHandlerReport(handler, show))
})
