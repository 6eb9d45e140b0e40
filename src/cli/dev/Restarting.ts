/**
 * Runs a program in a child process and starts it again when one of its source files changes. Every run loads all files again, so no
 * module of an earlier run is left.
 *
 * Invariants
 * 1. At most one run exists at a time: the next run starts when the earlier run has ended.
 * 2. No run outlives this process: a run ends when its channel to this process closes.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import { type FSWatcher, watch } from "node:fs"
import module from "node:module"
import { basename, dirname, extname, join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"

/** A message with which a run reports a file that it has loaded. */
interface Loaded {
  readonly loaded: string
}

const isLoaded = (message: unknown): message is Loaded =>
  typeof message === "object" && message !== null && "loaded" in message && typeof message.loaded === "string"

const inPackage = `${sep}node_modules${sep}`
const sourceExtensions = new Set([".ts", ".mts", ".js", ".mjs", ".json"])

// ---- in a run -----------------------------------------------------------------------------------------------------

/** Reports to the process that started this run which files are loaded from now on. Does nothing if there is no such process. */
export const reportLoadedFiles = Effect.sync(() => {
  if (process.send === undefined) return
  module.registerHooks({
    load: (url, context, next) => {
      if (url.startsWith("file:")) process.send?.({ loaded: fileURLToPath(url) } satisfies Loaded)
      return next(url, context)
    }
  })
})

/** Reports a file that is not a module, so that its changes start the next run. */
export const reportFile = (file: string) => Effect.sync(() => process.send?.({ loaded: file } satisfies Loaded))

/** Returns when the process that started this run has ended. */
export const startingProcessEnded: Effect.Effect<void> = Effect.callback<void>((resume) => {
  if (process.send === undefined) return
  const ended = () => resume(Effect.void)
  process.once("disconnect", ended)
  return Effect.sync(() => process.off("disconnect", ended))
})

// ---- in the process that starts the runs --------------------------------------------------------------------------

/** Watches the source files of one folder, and all files that runs load elsewhere. */
class Watching {
  readonly #folder: string
  readonly #changed: (path: string) => void
  readonly #files = new Set<string>()
  readonly #watchers = new Map<string, FSWatcher>()

  constructor(folder: string, changed: (path: string) => void) {
    this.#folder = folder
    this.#changed = changed
    this.#watch(folder)
  }

  /** Folders are watched, not files: editors replace a file when they save it. */
  add(file: string): void {
    if (file.includes(inPackage)) return
    this.#files.add(file)
    this.#watch(dirname(file))
  }

  #watch(folder: string): void {
    if (this.#watchers.has(folder)) return
    const watcher = watch(folder, (_, name) => {
      const path = name === null ? null : join(folder, basename(name))
      if (path !== null && (this.#files.has(path) || this.#isNewSource(path))) this.#changed(path)
    })
    watcher.on("error", () => undefined)
    this.#watchers.set(folder, watcher)
  }

  /** A failed run may have imported a file that does not exist yet. */
  #isNewSource(path: string): boolean {
    return dirname(path) === this.#folder && sourceExtensions.has(extname(path))
  }

  close(): void {
    for (const watcher of this.#watchers.values()) watcher.close()
  }
}

const startRun = (args: ReadonlyArray<string>, loaded: (file: string) => void): ChildProcess => {
  // its own process group: Ctrl-C reaches only this process, which then stops the run
  const run = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"], detached: true })
  run.on("message", (message) => {
    if (isLoaded(message)) loaded(message.loaded)
  })
  return run
}

const hasEnded = (run: ChildProcess): boolean => run.exitCode !== null || run.signalCode !== null

const awaitEnd = (run: ChildProcess): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    if (hasEnded(run)) return resume(Effect.void)
    const ended = () => resume(Effect.void)
    run.once("exit", ended).once("error", ended)
    return Effect.sync(() => run.off("exit", ended).off("error", ended))
  })

/** How long a handler that is in the middle of an attempt may take to finish. */
const stopWithin = "10 seconds"

const stopRun = (run: ChildProcess): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (hasEnded(run)) return Effect.void
    run.kill("SIGTERM")
    return awaitEnd(run).pipe(
      Effect.timeoutOrElse({ duration: stopWithin, orElse: () => Effect.sync(() => void run.kill("SIGKILL")) })
    )
  })

export interface RestartOptions {
  /** Arguments of Node.js for a run. */
  readonly args: ReadonlyArray<string>
  /** All source files in this folder are watched, whether a run loads them or not. */
  readonly folder: string
  readonly print: (line: string) => Effect.Effect<void>
}

/** How long to wait for further changes: several files change together when a branch is switched or a formatter runs. */
const settling = "100 millis"

/** Runs the program until interrupted; a run that ends by itself is followed by another one at the next change. */
export const restartOnChange = Effect.fn("Dev.restartOnChange")(
  function*({ args, folder, print }: RestartOptions): Effect.fn.Return<never, never, Scope.Scope> {
    const changes = yield* Queue.unbounded<string>()
    const watching = yield* Effect.acquireRelease(
      Effect.sync(() => new Watching(folder, (path) => Queue.offerUnsafe(changes, path))),
      (watching) => Effect.sync(() => watching.close())
    )
    const runUntilChange = Effect.gen(function*() {
      const run = yield* Effect.acquireRelease(
        Effect.sync(() => startRun(args, (file) => watching.add(file))),
        stopRun
      )
      const endsByItself = Effect.andThen(awaitEnd(run), print("The plugin is not running. Waiting for a change …"))
      const path = yield* Effect.raceFirst(Queue.take(changes), Effect.andThen(endsByItself, Effect.never))
      yield* Effect.sleep(settling)
      yield* Queue.clear(changes)
      yield* print(`\n${relative(process.cwd(), path)} changed`)
    })
    return yield* Effect.forever(Effect.scoped(runUntilChange))
  }
)
