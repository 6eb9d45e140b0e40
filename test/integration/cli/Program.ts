/**
 * Runs the command line like a user does: as a separate process, from the bin. Starting it takes half a second of processor
 * time, so a test whose subject is not the process uses `runCommand`.
 */
import { type ChildProcess, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll } from "vitest"
import { type RunningSandbox, type SandboxOptions, startSandbox } from "../../../src/sandbox/Sandbox.ts"
import { compileCache } from "../../support/services/CompileCache.ts"
import { freePort } from "../../support/services/FreePort.ts"
import type { Request } from "./CommandHost.ts"

const bin = fileURLToPath(new URL("../../../bin/rollcall.js", import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * These make `rollcall start` cheaper in a test: the option with which it would replace itself by another image of its process, and the
 * cache of the tests for compiled code. The thread of its database would not use the program's own cache.
 */
const cheaper = {
  options: ["--max-semi-space-size=8"],
  environment: compileCache()
}

/** The unit of times in /proc, in ms. */
const clockTick = 10

/** The variables that every process needs. */
const basics = (): Readonly<Record<string, string>> => {
  const { HOME = "", PATH = "", TMPDIR = tmpdir() } = process.env
  return { HOME, PATH, TMPDIR }
}

export class Program {
  readonly process: ChildProcess
  readonly #began = performance.now()
  stdout = ""
  stderr = ""
  readonly ended: Promise<Ended>

  /** The given environment and the variables that every process needs. `asForUsers`: a start is not made cheaper for a test. */
  constructor(
    args: ReadonlyArray<string>,
    environment: Readonly<Record<string, string>> = {},
    cwd = process.cwd(),
    entry = bin,
    asForUsers = entry !== bin || args[0] !== "start"
  ) {
    const { environment: cache, options } = asForUsers ? { environment: {}, options: [] } : cheaper
    const env = { ...basics(), ...cache, ...environment }
    this.process = spawn(process.execPath, [...options, entry, ...args], { cwd, env })
    this.process.stdout?.on("data", (chunk) => this.stdout += chunk)
    this.process.stderr?.on("data", (chunk) => this.stderr += chunk)
    this.ended = once(this.process, "close").then(([code]) => ({ code, stdout: this.stdout, stderr: this.stderr }))
  }

  /** Waits until the output matches, and returns the match. */
  async says(pattern: RegExp, where: "stdout" | "stderr" = "stdout"): Promise<RegExpMatchArray> {
    let over = false
    void this.ended.then(() => over = true)
    for (;;) {
      const match = this[where].match(pattern)
      if (match !== null) return match
      if (over) throw new Error(`it ended without saying ${pattern}:\n${this.stdout}\n${this.stderr}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  /**
   * The CPU time of the process, in ms, so that other work on the machine does not count. If it is unknown, the time since
   * the start.
   */
  worked(): number {
    const stat = `/proc/${this.process.pid}/stat`
    if (!existsSync(stat)) return performance.now() - this.#began
    const [user = 0, system = 0] = readFileSync(stat, "utf8").replace(/^.*\) /, "").split(" ").slice(11, 13).map(Number)
    return (user + system) * clockTick
  }

  /** Sends SIGTERM and waits for the end. */
  stop(signal: NodeJS.Signals = "SIGTERM"): Promise<Ended> {
    this.process.kill(signal)
    return this.ended
  }
}

export const run = (args: ReadonlyArray<string>, environment?: Readonly<Record<string, string>>): Promise<Ended> =>
  new Program(args, environment).ended

let host: ChildProcess | null = null
let previous: Promise<unknown> = Promise.resolve()

const ask = (request: Request): Promise<Ended> =>
  new Promise((resolve, reject) => {
    if (host?.connected !== true) {
      // without the arguments that the test runner gives its own processes; it ends with this process
      host = fork(join(import.meta.dirname, "CommandHost.ts"), { execArgv: [] })
      host.unref()
      host.channel?.unref()
    }
    const ended = () => reject(new Error(`the process of the commands ended during ${request.args.join(" ")}`))
    host.once("exit", ended).once("message", (reply) => {
      host?.off("exit", ended)
      resolve(reply as Ended)
    })
    host.send(request)
  })

/**
 * Runs a command that ends by itself in a process that many tests share. That process loads a configuration file only once, so each
 * test has its own.
 */
export const runCommand = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>> = {},
  cwd = process.cwd()
): Promise<Ended> => {
  const next = previous.then(() => ask({ args, environment: { ...basics(), ...environment }, cwd }))
  previous = next.catch(() => undefined)
  return next
}

export type Start = (...args: ConstructorParameters<typeof Program>) => Program
export type Serve = (options: SandboxOptions) => Promise<RunningSandbox>

/** Runs `use` with a temporary directory, then ends the programs and sandboxes that it started and removes the directory. */
export const inDirectory = async <A>(
  use: (directory: string, start: Start, serve: Serve) => Promise<A>
): Promise<A> => {
  const directory = mkdtempSync(join(tmpdir(), "rollcall-test-"))
  const started: Array<Program> = []
  const sandboxes: Array<RunningSandbox> = []
  const start: Start = (...args) => {
    const program = new Program(...args)
    started.push(program)
    return program
  }
  const serve: Serve = async (options) => {
    const sandbox = await startSandbox(options)
    sandboxes.push(sandbox)
    return sandbox
  }
  try {
    return await use(directory, start, serve)
  } finally {
    for (const { process } of started) process.kill("SIGKILL")
    await Promise.all(started.map((program) => program.ended))
    await Promise.all(sandboxes.map((sandbox) => sandbox.stop()))
    rmSync(directory, { recursive: true, force: true })
  }
}

/** What `setUp` makes in a temporary directory for all tests of a `describe`; it ends with them. */
export const whileTesting = <A>(
  setUp: (...args: Parameters<Parameters<typeof inDirectory>[0]>) => Promise<A>
): () => A => {
  let made: A | undefined
  let end: () => void = () => undefined
  let whole: Promise<void> = Promise.resolve()
  beforeAll(() =>
    new Promise<void>((resolve, reject) => {
      whole = inDirectory(async (...args) => {
        made = await setUp(...args)
        resolve()
        await new Promise<void>((resolve) => end = resolve)
      })
      whole.catch(reject)
    })
  )
  afterAll(() => {
    end()
    return whole
  })
  return () => made!
}

/** A sandbox, by default with one integration, and the environment variables to read it. */
export const sandboxed = async (serve: Serve, directory: string, options: SandboxOptions = {}) => {
  const sandbox = await serve({ integrations: 1, records: 20, speed: 0, key: "k3y-of-it", ...options })
  const { integrations, key, url } = sandbox
  const port = await freePort()
  const environment: Readonly<Record<string, string>> = {
    ROLLCALL_API_URL: url,
    ROLLCALL_API_KEY: key,
    ROLLCALL_INTEGRATIONS: integrations.join(","),
    ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
    ROLLCALL_HTTP_PORT: String(port),
    ROLLCALL_INTERVAL: "1 second"
  }
  return { sandbox, environment, api: `http://127.0.0.1:${port}`, url, key }
}
