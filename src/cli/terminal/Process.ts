/**
 * How a command runs: where its errors are reported, how it reacts to signals, and its exit code.
 *
 * Gotchas
 * - The first SIGINT or SIGTERM lets the command finish its current work. A second one ends the process at once, because the signal
 *   handlers are then removed.
 */
import * as Cause from "effect/Cause"
import type * as CliError from "effect/cli/CliError"
import * as Prompt from "effect/cli/Prompt"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import { StoreInUse } from "../../store/StoreError.ts"
import * as Logging from "../../telemetry/Logging.ts"
import { oneLine, toTerminal } from "../../telemetry/TerminalText.ts"

/** Prints lines on standard output, whatever characters the text contains. */
export const print = (text: string): Effect.Effect<void> =>
  Effect.sync(() => process.stdout.write(toTerminal(`${text}\n`)))

/**
 * Replaces the progress line on standard error; shows nothing with --json, or if that is not a terminal. An empty text removes the line.
 * The line is cut at the right edge, because only one line can be replaced.
 */
export const progressPrinter = (json: boolean) => (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (json || !process.stderr.isTTY) return
    process.stderr.write(`\r\u001b[2K\u001b[?7l${toTerminal(oneLine(text))}\u001b[?7h`)
  })

const printError = (text: string): void => void process.stderr.write(toTerminal(`${text}\n`))

/** Prints a line for the person who runs a command whose standard output is for a program. */
export const printAside = (text: string): Effect.Effect<void> => Effect.sync(() => printError(text))

/** A command failed, and its error is already reported. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", { exitCode: Schema.Number }) {
  /** 3 if another process works on the SQLite store, so that a scheduler can ignore a start that is not needed; otherwise 1. */
  static by(error: unknown): CommandFailed {
    return new CommandFailed({ exitCode: error instanceof StoreInUse ? 3 : 1 })
  }
}

/** Why a command failed, for the person who ran it. */
export class CommandError extends Schema.TaggedError<CommandError>()("CommandError", {
  message: Schema.String,
  /** What to do; absent if the message or an earlier line contains the hint. */
  hint: Schema.optionalKey(Schema.String)
}) {}

/** Fails with an error that has a hint. */
export const refuse = (message: string, hint: string) => Effect.fail(new CommandError({ message, hint }))

interface ReportedError {
  readonly message: string
}

/** The hint of an error, unless its message already contains the hint. */
const hintOf = (error: ReportedError): string | null =>
  "hint" in error && typeof error.hint === "string" && !error.message.includes(error.hint) ? error.hint : null

export interface ConfirmationOptions {
  readonly yes: boolean
  /** With --json nothing is shown, and there is no prompt, because a program reads the output. */
  readonly json: boolean
  /** A text that is printed before the question, such as a plan. */
  readonly shown: string
  readonly question: string
  /** How the command is confirmed without a prompt. */
  readonly hint: string
}

/** Returns once the operator has confirmed a command with large effects, with --yes or at a prompt; fails otherwise. */
export const confirm = Effect.fnUntraced(function*({ hint, json, question, shown, yes }: ConfirmationOptions) {
  if (!json && shown !== "") yield* print(shown)
  if (yes) return
  const ask = Prompt.run(Prompt.Confirm({ message: question, initial: false }))
  const confirmed = !json && process.stdin.isTTY && (yield* Effect.catch(ask, () => Effect.succeed(false)))
  if (!confirmed) return yield* new CommandError({ message: "not confirmed, so nothing was changed", hint })
})

/** For commands that people run: writes the error as text to standard error, and logs only errors. */
export const withTerminalErrors = <A, E extends ReportedError, R>(
  command: Effect.Effect<A, E, R>
): Effect.Effect<A, CommandFailed, R> =>
  command.pipe(
    Effect.catch((error) => {
      const hint = hintOf(error)
      printError(`rollcall: ${error.message}${hint === null ? "" : `\n  ${hint}`}`)
      return Effect.fail(CommandFailed.by(error))
    }),
    Effect.provide(Logging.layer({ level: "error", format: "pretty" }))
  )

/** For commands that run as a service: writes the error as a line of the log. */
export const withLoggedErrors =
  (log: { readonly level: Logging.Level; readonly format: Logging.Format | null }) =>
  <A, E extends ReportedError, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, CommandFailed, R> =>
    command.pipe(
      Effect.catch((error) => {
        const hint = hintOf(error)
        return Effect.logError(error.message).pipe(
          Effect.annotateLogs(hint === null ? {} : { hint }),
          Effect.andThen(Effect.fail(CommandFailed.by(error)))
        )
      }),
      Effect.provide(
        Logging.layer({ level: log.level, format: log.format ?? (process.stderr.isTTY ? "pretty" : "json") })
      )
    )

/** Returns on the first SIGINT or SIGTERM. */
export const awaitShutdownSignal: Effect.Effect<void> = Effect.callback<void>((resume) => {
  const ignore = () => process.off("SIGINT", stop).off("SIGTERM", stop)
  const stop = () => {
    ignore()
    resume(Effect.void)
  }
  process.on("SIGINT", stop).on("SIGTERM", stop)
  return Effect.sync(ignore)
})

/** 0 for success, 1 or 3 for a failure, 2 for wrong usage. Reports an error that no command expects. */
export const exitCode = <A>(exit: Exit.Exit<A, CommandFailed | CliError.CliError>): number => {
  if (Exit.isSuccess(exit)) return 0
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined) {
    printError(`rollcall: internal error; please report it with the text below\n${Cause.pretty(exit.cause)}`)
    return 1
  }
  if (error._tag === "CommandFailed") return error.exitCode
  return error._tag === "ShowHelp" && error.errors.length === 0 ? 0 : 2
}

/** Node's own `exit`, because `process.exit` is replaced while plugins run and would not end the process. */
const { exit } = process

/** If the reader of the output has closed the pipe (`rollcall tail | head`), the process exits with success. */
const exitWithoutOutput = ({ code = "unknown cause" }: NodeJS.ErrnoException): void => {
  if (code !== "EPIPE") {
    printError(`rollcall: the output cannot be written (${code})\n  Check the disk that it is written to.`)
  }
  exit.call(process, code === "EPIPE" ? 0 : 1)
}

/**
 * A message that cannot be written is lost. The service continues if the disk of its log is full, and finishes its work on Ctrl-C, which ends
 * the reader of its log first (`rollcall start 2>&1 | tee log`).
 */
const ignoreLostMessage = (): void => undefined

/** Runs the whole program and exits. Effect makes no spans of its own; `telemetry/Tracing.ts` makes those that are exported. */
export const runMain = async <A>(program: Effect.Effect<A, CommandFailed | CliError.CliError>): Promise<never> => {
  process.stdout.on("error", exitWithoutOutput)
  process.stderr.on("error", ignoreLostMessage)
  const code = exitCode(await Effect.runPromiseExit(Effect.withTracerEnabled(program, false)))
  // an error of the last write is reported after this turn
  await new Promise((resolve) => setImmediate(resolve))
  return process.exit(code)
}
