/**
 * How log lines look: one line a fact, on standard error, for people on a terminal and as JSON elsewhere.
 *
 * Gotchas
 * - An expected failure is its message alone. Only a defect brings its stack, and in JSON that is one field.
 * - Node prints warnings of its own in several lines; here they are lines of the log like any other.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as LogLevel from "effect/LogLevel"
import * as References from "effect/References"
import { styleText } from "node:util"

export type Format = "pretty" | "json"

const levels = { trace: "Trace", debug: "Debug", info: "Info", warn: "Warn", error: "Error" } as const satisfies Record<
  string,
  LogLevel.LogLevel
>
export type Level = keyof typeof levels

interface Line {
  readonly at: Date
  readonly level: LogLevel.LogLevel
  readonly message: string
  readonly data: Readonly<Record<string, unknown>>
  readonly faults: ReadonlyArray<string>
  readonly stack: string | null
}

const textOf = (part: unknown): string =>
  typeof part === "string" ? part : part instanceof Error ? part.message : JSON.stringify(part) ?? String(part)

const lineOf = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>): Line => {
  const parts = Array.isArray(message) ? message : [message]
  const defects = cause.reasons.filter(Cause.isDieReason).map((reason) => reason.defect)
  return {
    at: date,
    level: logLevel,
    message: parts.map(textOf).join(" "),
    data: fiber.getRef(References.CurrentLogAnnotations),
    faults: [...cause.reasons.filter(Cause.isFailReason).map((reason) => textOf(reason.error)), ...defects.map(textOf)],
    stack: defects.length === 0 ? null : Cause.pretty(cause)
  }
}

const jsonText = (line: Line): string =>
  JSON.stringify({
    time: line.at.toISOString(),
    level: line.level.toLowerCase(),
    message: line.message,
    ...line.data,
    ...(line.faults.length === 0 ? {} : { fault: line.faults.join("; ") }),
    ...(line.stack === null ? {} : { stack: line.stack })
  })

const colours: Partial<Record<LogLevel.LogLevel, "red" | "yellow" | "cyan" | "gray">> = {
  Error: "red",
  Warn: "yellow",
  Info: "cyan",
  Debug: "gray",
  Trace: "gray"
}

/** `styleText` leaves the colours away where NO_COLOR is set or standard error is no terminal. */
const prettyText = (line: Line): string => {
  const paint = (colour: "red" | "yellow" | "cyan" | "gray", text: string) =>
    styleText(colour, text, { stream: process.stderr })
  const level = paint(colours[line.level] ?? "gray", line.level.toUpperCase().padEnd(5))
  const data = Object.entries(line.data).map(([name, value]) => `${paint("gray", `${name}=`)}${textOf(value)}`)
  const time = paint("gray", line.at.toTimeString().slice(0, 8))
  return [`${time} ${level} ${[line.message, ...line.faults].join(": ")}`, ...data].join("  ") +
    (line.stack === null ? "" : `\n${line.stack}`)
}

/** Warnings that say nothing to anybody: kafkajs sets timers in the past. */
const noise: ReadonlySet<string> = new Set(["TimeoutNegativeWarning"])

/** Replaces the default logger, and Node's own way to print warnings. */
export const layer = (options: { readonly level: Level; readonly format: Format }): Layer.Layer<never> => {
  const text = options.format === "json" ? jsonText : prettyText
  const print = (line: Line) => process.stderr.write(`${text(line)}\n`)
  const logger = Logger.make<unknown, void>((log) => {
    print(lineOf(log))
  })
  const warnings = Effect.sync(() => {
    process.removeAllListeners("warning").on("warning", ({ message, name }) => {
      if (noise.has(name)) return
      print({ at: new Date(), level: "Warn", message, data: { name }, faults: [], stack: null })
    })
  })
  return Layer.mergeAll(
    Logger.layer([logger]),
    Layer.succeed(References.MinimumLogLevel, levels[options.level]),
    Layer.effectDiscard(warnings)
  )
}
