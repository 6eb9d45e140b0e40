/**
 * The format of log lines: one line per fact on standard error, readable text on a terminal and JSON elsewhere.
 *
 * Gotchas
 * - Control and format characters of names are escaped in both formats; a message is one line, a stack may be several.
 * - An expected failure is logged with its message only; a defect also with its stack, which is one field in JSON.
 * - A plugin may log any value. A logger that throws would fail the code that logs, so a value that is not JSON is replaced.
 * - Node prints its own warnings on several lines. The layer replaces this output, so that each warning is one ordinary log line.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as LogLevel from "effect/LogLevel"
import * as References from "effect/References"
import { oneLine, paint, timeOfDay, toTerminal } from "./TerminalText.ts"

export type Format = "pretty" | "json"

const levels = { trace: "Trace", debug: "Debug", info: "Info", warn: "Warn", error: "Error" } as const satisfies Record<
  string,
  LogLevel.LogLevel
>
export type Level = keyof typeof levels

interface LogLine {
  readonly at: Date
  readonly level: LogLevel.LogLevel
  readonly message: string
  readonly data: Readonly<Record<string, unknown>>
  readonly errors: ReadonlyArray<string>
  readonly stack: string | null
}

/** Like `JSON.stringify`, with the digits of a bigint. Throws if the value contains itself, or if one of its properties throws. */
const stringify = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, inner: unknown) => typeof inner === "bigint" ? String(inner) : inner)

const textOf = (part: unknown): string => {
  try {
    return typeof part === "string"
      ? part
      : part instanceof Error
      ? String(part.message)
      : stringify(part) ?? String(part)
  } catch {
    return "(a value that cannot be shown)"
  }
}

const stackOf = (cause: Cause.Cause<unknown>): string => {
  try {
    return Cause.pretty(cause)
  } catch {
    return "(a stack that cannot be shown)"
  }
}

const lineOf = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>): LogLine => {
  const parts = Array.isArray(message) ? message : [message]
  const defects = cause.reasons.filter(Cause.isDieReason).map((reason) => reason.defect)
  return {
    at: date,
    level: logLevel,
    message: parts.map(textOf).join(" "),
    data: fiber.getRef(References.CurrentLogAnnotations),
    errors: [...cause.reasons.filter(Cause.isFailReason).map((reason) => textOf(reason.error)), ...defects.map(textOf)],
    stack: defects.length === 0 ? null : stackOf(cause)
  }
}

/** The value, or for an object its text: JSON, or a note that it cannot be shown. */
const shown = (value: unknown): unknown => typeof value === "object" && value !== null ? textOf(value) : value

const jsonText = (line: LogLine): string => {
  const textWith = (data: LogLine["data"]) =>
    stringify({
      time: line.at.toISOString(),
      level: line.level.toLowerCase(),
      message: line.message,
      ...data,
      ...(line.errors.length === 0 ? {} : { error: line.errors.join("; ") }),
      ...(line.stack === null ? {} : { stack: line.stack })
    }) ?? ""
  try {
    return textWith(line.data)
  } catch {
    return textWith(Object.fromEntries(Object.entries(line.data).map(([name, value]) => [name, shown(value)])))
  }
}

const colors: Partial<Record<LogLevel.LogLevel, "red" | "yellow" | "cyan" | "gray">> = {
  Error: "red",
  Warn: "yellow",
  Info: "cyan",
  Debug: "gray",
  Trace: "gray"
}

const prettyText = (line: LogLine): string => {
  const level = paint(colors[line.level] ?? "gray", line.level.toUpperCase().padEnd(5), process.stderr)
  const gray = (text: string) => paint("gray", text, process.stderr)
  const data = Object.entries(line.data).map(([name, value]) => `${gray(`${name}=`)}${textOf(value)}`)
  const time = gray(timeOfDay(line.at))
  return oneLine([`${time} ${level} ${[line.message, ...line.errors].join(": ")}`, ...data].join("  ")) +
    (line.stack === null ? "" : `\n${line.stack}`)
}

/** Warnings that do not concern operators: kafkajs sets timers in the past. */
const ignoredWarnings: ReadonlySet<string> = new Set(["TimeoutNegativeWarning"])

/** Replaces the default logger and Node's own printing of warnings. */
export const layer = (options: { readonly level: Level; readonly format: Format }): Layer.Layer<never> => {
  const text = options.format === "json" ? jsonText : prettyText
  const print = (line: LogLine) => process.stderr.write(toTerminal(`${text(line)}\n`))
  const logger = Logger.make<unknown, void>((log) => {
    print(lineOf(log))
  })
  const warnings = Effect.sync(() => {
    process.removeAllListeners("warning").on("warning", ({ message, name }) => {
      if (ignoredWarnings.has(name)) return
      print({ at: new Date(), level: "Warn", message, data: { name }, errors: [], stack: null })
    })
  })
  return Layer.mergeAll(
    Logger.layer([logger]),
    Layer.succeed(References.MinimumLogLevel, levels[options.level]),
    Layer.effectDiscard(warnings)
  )
}
