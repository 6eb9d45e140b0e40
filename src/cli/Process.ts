/**
 * How a command runs and ends: who is told what went wrong, what signals do, and the exit code.
 *
 * Gotchas
 * - The first SIGINT or SIGTERM drains; a second one ends the process at once, for nobody listens any more.
 */
import * as Cause from "effect/Cause"
import type * as CliError from "effect/cli/CliError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Logging from "../telemetry/Logging.ts"

/** A command did not do what was asked; why has been told. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {}) {}

interface CommandError {
  readonly message: string
}

/** What to do about it, unless the message says so itself. */
const hintOf = (fault: CommandError): string | null =>
  "hint" in fault && typeof fault.hint === "string" && !fault.message.includes(fault.hint) ? fault.hint : null

/** A command for people: what went wrong is told in words on standard error, nothing else is logged. */
export const withTerminalErrors = <A, E extends CommandError, R>(
  command: Effect.Effect<A, E, R>
): Effect.Effect<A, CommandFailed, R> =>
  command.pipe(
    Effect.catch((fault) => {
      const hint = hintOf(fault)
      process.stderr.write(`rollcall: ${fault.message}\n${hint === null ? "" : `  ${hint}\n`}`)
      return Effect.fail(new CommandFailed())
    }),
    Effect.provide(Logging.layer({ level: "error", format: "pretty" }))
  )

/** A command that runs as a service: what went wrong is a line of its log. */
export const withLoggedErrors =
  (log: { readonly level: Logging.Level; readonly format: Logging.Format | null }) =>
  <A, E extends CommandError, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, CommandFailed, R> =>
    command.pipe(
      Effect.catch((fault) => {
        const hint = hintOf(fault)
        return Effect.logError(fault.message).pipe(
          Effect.annotateLogs(hint === null ? {} : { hint }),
          Effect.andThen(Effect.fail(new CommandFailed()))
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

const exitCode = <A>(exit: Exit.Exit<A, CommandFailed | CliError.CliError>): number => {
  if (Exit.isSuccess(exit)) return 0
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined) {
    process.stderr.write(`rollcall: a defect, please report it\n${Cause.pretty(exit.cause)}\n`)
    return 1
  }
  if (error._tag === "CommandFailed") return 1
  return error._tag === "ShowHelp" && error.errors.length === 0 ? 0 : 2
}

/** The one of Node: a plugin's output may come here too, and what plugins call does not end the process. */
const { exit } = process

/** Whoever read our output has seen enough (`rollcall tail | head`): that ends us, and is no fault. */
const exitOnBrokenPipe = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") throw error
  exit.call(process, 0)
}

/** Runs the whole program; 0 fine, 1 failed, 2 wrong usage. */
export const runMain = async <A>(program: Effect.Effect<A, CommandFailed | CliError.CliError>): Promise<never> => {
  process.stdout.on("error", exitOnBrokenPipe)
  return process.exit(exitCode(await Effect.runPromiseExit(program)))
}
