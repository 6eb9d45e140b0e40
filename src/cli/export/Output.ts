/**
 * Where an export is written: a file that only its owner reads, or standard output.
 *
 * Invariants
 * 1. A file has its name only when it is complete. An export that fails leaves an earlier file as it was
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { closeSync, openSync, realpathSync, statSync } from "node:fs"
import { open, rename, rm } from "node:fs/promises"
import { toTerminal } from "../../telemetry/TerminalText.ts"
import { CommandError } from "../terminal/Process.ts"

export const ownerOnly = 0o600

export interface Output {
  readonly write: (text: string) => Effect.Effect<void, CommandError>
  /** Gives a file its name. Later texts are added to it. */
  readonly complete: Effect.Effect<void, CommandError>
}

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "unknown cause"

export const cannotWrite = (file: string, why: string) =>
  new CommandError({
    message: `the file ${file} cannot be written: ${why}`,
    hint: "Name another file, or remove this one."
  })

/** Waits until the reader of a pipe has taken the text. */
export const standardOutput: Output = {
  write: (text) =>
    Effect.callback<void>((resume) => {
      const { stdout } = process
      if (stdout.write(stdout.isTTY ? toTerminal(text) : text)) resume(Effect.void)
      else stdout.once("drain", () => resume(Effect.void))
    }),
  complete: Effect.void
}

/** The file behind links. Fails for something that is not a file, such as a folder or a device. */
const fileOf = (path: string) =>
  Effect.try({
    try: () => {
      const found = statSync(path, { throwIfNoEntry: false })
      return found === undefined ? path : found.isFile() ? realpathSync(path) : null
    },
    catch: (error) => cannotWrite(path, codeOf(error))
  }).pipe(
    Effect.flatMap((file) => file === null ? Effect.fail(cannotWrite(path, "it is not a file")) : Effect.succeed(file))
  )

export const fileOutput = Effect.fnUntraced(function*(path: string) {
  const attempt = <A>(run: () => Promise<A>) =>
    Effect.tryPromise({ try: run, catch: (error) => cannotWrite(path, codeOf(error)) })
  const file = yield* fileOf(path)
  const partial = `${file}.${randomUUID()}.partial`
  const handle = yield* Effect.acquireRelease(
    attempt(() => open(partial, "wx", ownerOnly)),
    (handle) => Effect.promise(() => handle.close().then(() => rm(partial, { force: true })))
  )
  return {
    write: (text) => Effect.asVoid(attempt(() => handle.appendFile(text))),
    complete: attempt(() => handle.datasync().then(() => rename(partial, file)))
  } satisfies Output
})

/** Makes an empty file for a database that does not exist yet, which only its owner can read. An existing file keeps its mode. */
export const prepareDatabaseFile = (path: string) =>
  Effect.flatMap(fileOf(path), (file) =>
    Effect.try({
      try: () => {
        closeSync(openSync(file, "a", ownerOnly))
        return file
      },
      catch: (error) => cannotWrite(path, codeOf(error))
    }))
