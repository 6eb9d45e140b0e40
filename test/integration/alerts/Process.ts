/**
 * A sandbox, and real processes that read it. A process keeps its address and its folder across restarts.
 */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { freePort } from "../../support/services/FreePort.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"
import { Program } from "../cli/Program.ts"
import * as Prometheus from "./Prometheus.ts"

const effect = realpathSync(join(dirname(fileURLToPath(import.meta.url)), "../../../node_modules/effect"))

export const integration = "sandbox:everything"
export const models = ["ats.tag", "hris.skill", "hris.absence_type"] as const

interface Read {
  readonly integration: string
  readonly models: ReadonlyArray<string>
  /** Default: one hour. */
  readonly sweepInterval?: string
}

const configurationOf = (
  url: string,
  plugins: string,
  { integration, models, sweepInterval = "1 hour" }: Read
): string =>
  `import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"

export default defineConfig({
  accounts: { default: { url: ${JSON.stringify(url)}, key: secret("KEY") } },
  integrations: [{
    id: ${JSON.stringify(integration)},
    models: ${JSON.stringify(models)},
    interval: "1 second",
    sweepInterval: ${JSON.stringify(sweepInterval)}
  }],
  plugins: [${plugins}]
})
`

/** How long a process may take until all of its streams are live. */
const startMillis = 60_000

export interface Process {
  readonly url: string
  readonly folder: string
  readonly sandbox: Effect.Success<ReturnType<typeof Sandbox.serve>>
  /** Starts the process; returns when all streams are live. */
  readonly start: (environment?: Readonly<Record<string, string>>) => Effect.Effect<Program>
  /** Sends the signal and waits for the end. */
  readonly stop: (signal?: NodeJS.Signals) => Effect.Effect<void>
  /** Replaces the plugins of the configuration, as code; the next start uses them. */
  readonly setPlugins: (plugins: string) => void
  readonly post: <A>(path: string, body?: unknown) => Effect.Effect<A>
  readonly get: <A>(path: string) => Effect.Effect<A>
}

export interface Options {
  /** Default: a sandbox of its own. */
  readonly sandbox?: Process["sandbox"]
  /** Default: all models of `integration`. */
  readonly read?: Read
  readonly plugins?: string
  /** Default: a SQLite file in the folder. */
  readonly store?: string
  readonly environment?: Readonly<Record<string, string>>
}

/** A process that is not started yet. */
export const make = (options: Options = {}): Effect.Effect<Process, never, Scope.Scope> =>
  Effect.gen(function*() {
    const path = yield* temporaryFolder
    const { plugins = "", read = { integration, models } } = options
    const sandbox = options.sandbox ??
      (yield* Effect.orDie(Sandbox.serve({ seed: 7, speed: 0, records: 10, integrations: 1 })))
    mkdirSync(join(path, "node_modules"))
    symlinkSync(effect, join(path, "node_modules/effect"))
    const setPlugins = (plugins: string) =>
      writeFileSync(join(path, "rollcall.config.ts"), configurationOf(sandbox.url, plugins, read))
    setPlugins(plugins)
    const port = yield* Effect.promise(freePort)
    const url = `http://127.0.0.1:${port}`
    let program: Program | null = null
    const end = (signal: NodeJS.Signals) =>
      Effect.promise(async () => {
        const running = program
        program = null
        // a frozen process receives SIGKILL, but no other signal
        if (running !== null) await running.stop(signal)
      })
    yield* Effect.addFinalizer(() => end("SIGKILL"))
    const isLive = async (): Promise<boolean> => {
      const { streams } = await (await fetch(`${url}/v1/overview`)).json() as {
        readonly streams: { readonly total: number; readonly live: number }
      }
      return streams.total >= read.models.length && streams.live === streams.total
    }
    return {
      url,
      folder: path,
      sandbox,
      setPlugins,
      start: (environment = {}) =>
        Effect.promise(async () => {
          const started = new Program(["start"], {
            KEY: sandbox.key,
            ROLLCALL_STORE: options.store ?? `sqlite:${join(path, "rollcall.db")}`,
            ROLLCALL_HTTP_PORT: String(port),
            ROLLCALL_RETRY_BASE: "20 millis",
            ...options.environment,
            ...environment
          }, path)
          program = started
          const deadline = Date.now() + startMillis
          while (!(await isLive().catch(() => false))) {
            if (started.process.exitCode !== null || Date.now() > deadline) {
              throw new Error(`the streams are not live:\n${started.stdout}\n${started.stderr}`)
            }
            await new Promise((resolve) => setTimeout(resolve, 50))
          }
          return started
        }),
      stop: (signal = "SIGTERM") => end(signal),
      post: (path, body = {}) =>
        Effect.promise(async () => {
          const headers = { "content-type": "application/json" }
          const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })
          if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
          return await response.json()
        }),
      get: (path) => Effect.promise(async () => await (await fetch(`${url}${path}`)).json())
    }
  })

/** The ids of the live records of a model. */
export const idsOf = ({ sandbox }: Process, model: (typeof models)[number]) =>
  Effect.map(
    sandbox.truth(model),
    (records) => records.map((record) => (record as { readonly id: string }).id)
  )

export const createTags = ({ sandbox }: Process, count: number, name: string) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => index),
    (index) => sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: `${name} ${index}` } }),
    { discard: true }
  )

/** Starts the process; returns a Prometheus that watches it and in which no alert fires. */
export const watched = Effect.fnUntraced(function*(
  service: Process,
  environment: Readonly<Record<string, string>> = {}
) {
  yield* service.start(environment)
  const prometheus = yield* Prometheus.start([service.url])
  yield* prometheus.quiet
  return prometheus
})

/** A test that may take some minutes. */
export const test = (
  sentence: string,
  minutes: number,
  body: () => Generator<Effect.Effect<unknown, unknown, Scope.Scope>, void>
) => it.live(sentence, () => Effect.gen(body), minutes * 60_000)
