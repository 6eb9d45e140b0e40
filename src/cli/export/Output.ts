/**
 * Where an export is written: a file that only its owner reads, or standard output.
 *
 * Invariants
 * 1. A file has its name only when it is complete. An export that fails leaves an earlier file as it was
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { closeSync, openSync, statSync } from "node:fs"
import { open, realpath, rename, rm } from "node:fs/promises"
import { toTerminal } from "../../telemetry/TerminalText.ts"
import { codeOf } from "../client/ApiClient.ts"
import { CommandError } from "../terminal/Process.ts"

const ownerOnly = 0o600

export interface Output {
  readonly write: (text: string) => Effect.Effect<void, CommandError>
  /** Gives a file its name. Later texts are added to it. */
  readonly complete: Effect.Effect<void, CommandError>
}

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

const attempt = <A>(path: string, run: () => A | Promise<A>) =>
  Effect.tryPromise({ try: async () => run(), catch: (error) => cannotWrite(path, codeOf(error)) })

/** The file behind links. Fails for something that is not a file, such as a folder or a device. */
const fileOf = Effect.fnUntraced(function*(path: string) {
  const found = yield* attempt(path, () => statSync(path, { throwIfNoEntry: false }))
  if (found === undefined) return path
  if (!found.isFile()) return yield* cannotWrite(path, "it is not a file")
  return yield* attempt(path, () => realpath(path))
})

export const fileOutput = Effect.fnUntraced(function*(path: string) {
  const file = yield* fileOf(path)
  const partial = `${file}.${randomUUID()}.partial`
  const handle = yield* Effect.acquireRelease(
    attempt(path, () => open(partial, "wx", ownerOnly)),
    (handle) => Effect.promise(() => handle.close().then(() => rm(partial, { force: true })))
  )
  return {
    write: (text) => attempt(path, () => handle.appendFile(text)),
    complete: attempt(path, () => handle.datasync().then(() => rename(partial, file)))
  } satisfies Output
})

/** Makes an empty file for a database that does not exist yet, which only its owner can read. An existing file keeps its mode. */
export const prepareDatabaseFile = Effect.fnUntraced(function*(path: string) {
  const file = yield* fileOf(path)
  yield* attempt(path, () => closeSync(openSync(file, "a", ownerOnly)))
  return file
})
