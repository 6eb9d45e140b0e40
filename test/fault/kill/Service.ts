/**
 * The real program as a process of its own.
 *
 * Invariants
 * 1. The process never outlives the scope in which it was launched.
 * 2. Every wait ends after at most a minute, with an error that names the awaited event and contains the end of the log.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import { EventEmitter, once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Readable } from "node:stream"
import { pathToFileURL } from "node:url"
import type { StreamView } from "../../../src/http/contract/StreamApi.ts"
import { compileCache } from "../../support/services/CompileCache.ts"
import type { Doom, StepReport } from "./Doom.ts"
import { patience, timely } from "./Patience.ts"

const program = join(import.meta.dirname, "../../../bin/rollcall.js")
const steps = pathToFileURL(join(import.meta.dirname, "Steps.ts")).href

/** Kinds of steps that commit a page of a list. */
const pages: ReadonlySet<string> = new Set(["backfill", "backfill's end", "sweep", "sweep's end", "poll", "poll's end"])

export interface Service {
  /** Address of the HTTP API, once the service reports its start; dies with the log if the process ends before. */
  readonly url: Effect.Effect<string>
  /** Whether the process still runs. */
  readonly alive: () => boolean
  readonly pid: number
  /** Kinds of the durable steps so far, oldest first. */
  readonly steps: ReadonlyArray<string>
  /** From the start of the process to its first committed page, in ms; null if no page yet. */
  readonly recovery: () => number | null
  /** Whether a transaction is open. */
  readonly isWriting: () => boolean
  /** The kind of the step at which the injected signal was sent; null if the process ends before. */
  readonly doomed: Effect.Effect<string | null>
  /** Waits for the end; the exit code, null after `SIGKILL`. */
  readonly ended: Effect.Effect<number | null>
  /** Sends the signal and waits for the end; the exit code, null after `SIGKILL`. */
  readonly end: (signal: "SIGKILL" | "SIGTERM") => Effect.Effect<number | null>
  /** Sends the signal without waiting. */
  readonly signal: (signal: "SIGSTOP" | "SIGCONT") => Effect.Effect<void>
  /** Waits until the log contains this text; dies with the log if the process ends before. */
  readonly says: (text: string) => Effect.Effect<void>
  /** The last lines of the log. */
  readonly log: () => string
}

export interface Launch {
  /** Default `start`. */
  readonly command?: ReadonlyArray<string>
  readonly doom?: Doom | undefined
}

/** `rollcall start` on a free port with these settings; it inherits the environment except the service's own variables. */
export const launch = (
  settings: Readonly<Record<string, string>>,
  { command = ["start"], doom }: Launch = {}
): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const inherited = Object.entries(process.env).filter(([name]) =>
        !/^(ROLLCALL_|KAFKA_|DATABASE_URL|NODE_)/.test(name)
      )
      const launchedAt = Date.now()
      // with the option, the process does not replace itself, which would close the file that it reports to
      const child = spawn(process.execPath, ["--max-semi-space-size=8", "--import", steps, program, ...command], {
        env: {
          ...Object.fromEntries(inherited),
          ...compileCache(),
          ROLLCALL_HTTP_PORT: "0",
          ROLLCALL_LOG_FORMAT: "json",
          DOOM: JSON.stringify(doom ?? null),
          ...settings
        },
        stdio: ["ignore", "ignore", "pipe", "pipe"]
      })
      const doneSteps: Array<string> = []
      let recovery: number | null = null
      let isWriting = false
      const doomed = new Promise<string | null>((resolve) =>
        createInterface(child.stdio[3] as Readable).on("line", (line) => {
          const report: StepReport = JSON.parse(line)
          if ("writing" in report) isWriting = report.writing
          else if ("doomed" in report) resolve(report.doomed)
          else {
            isWriting = false
            doneSteps.push(report.of)
            if (pages.has(report.of)) recovery ??= report.at - launchedAt
          }
        }).on("close", () => resolve(null))
      )
      const lines: Array<string> = []
      const news = new EventEmitter()
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
      const started = new Promise<string>((resolve, reject) => {
        createInterface(child.stdio[2] as Readable).on("line", (line) => {
          lines.push(line)
          news.emit("line")
          if (lines.length > 500) lines.shift()
          const entry: { message?: string; url?: string } = line.startsWith("{") ? JSON.parse(line) : {}
          if (entry.message === "started" && entry.url !== undefined) resolve(entry.url)
        }).on("close", () => reject(new Error(`the service ended before it started:\n${lines.join("\n")}`)))
      })
      started.catch(() => undefined)
      const stateText = () => `process ${child.pid}, last step ${doneSteps.at(-1) ?? "none"}\n${lines.join("\n")}`
      const awaited = <A>(promise: Promise<A>, what: string) =>
        Effect.promise(() => timely(promise, `the service to ${what}`, stateText))
      const logged = async (text: string) => {
        while (!lines.some((line) => line.includes(text))) {
          const next = await Promise.race([once(news, "line"), ended.then(() => null)])
          if (next === null) throw new Error(`the service ended before it logged "${text}":\n${lines.join("\n")}`)
        }
      }
      const service: Service = {
        url: awaited(started, "start"),
        alive: () => child.exitCode === null && child.signalCode === null,
        pid: child.pid ?? 0,
        steps: doneSteps,
        recovery: () => recovery,
        isWriting: () => isWriting,
        doomed: awaited(doomed, `reach ${JSON.stringify(doom)}`),
        ended: awaited(ended, "end"),
        signal: (signal) => Effect.sync(() => child.kill(signal)),
        end: (signal) => Effect.andThen(Effect.sync(() => child.kill(signal)), awaited(ended, `end after ${signal}`)),
        says: (text) => Effect.suspend(() => awaited(logged(text), `log "${text}"`)),
        log: () => lines.join("\n")
      }
      return service
    }),
    (service) => service.end("SIGKILL")
  )

/** The response of the HTTP API; dies on an error status, after the time limit, or if the connection breaks. */
export const ask = (url: string, path: string, request: RequestInit = {}): Effect.Effect<string> =>
  Effect.promise(async () => {
    const signal = AbortSignal.timeout(Duration.toMillis(patience))
    // a connection that is kept alive may be closed by the server just when it is used again
    const headers = { ...request.headers, connection: "close" }
    const response = await fetch(`${url}${path}`, { ...request, headers, signal })
    const text = await timely(response.text(), `the rest of ${path}`)
    // 409: the command was applied already, or is no longer possible
    if (!response.ok && response.status !== 409) throw new Error(`${path} returned ${response.status}: ${text}`)
    return text
  })

export const post = (url: string, path: string, body?: unknown): Effect.Effect<string> =>
  ask(url, path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) })
  })

/** Approves every open hold; returns whether there was one. */
export const approveAll = Effect.fnUntraced(function*(url: string) {
  const { items }: { readonly items: ReadonlyArray<{ readonly id: number }> } = JSON.parse(
    yield* ask(url, "/v1/holds?state=open")
  )
  for (const { id } of items) {
    // a hold that has ended meanwhile has no plan
    const { plan }: { readonly plan?: string } = JSON.parse(yield* ask(url, `/v1/holds/${id}/plan`))
    if (plan !== undefined) yield* post(url, `/v1/holds/${id}/approve?plan=${plan}`)
  }
  return items.length > 0
})

export const streams = (url: string): Effect.Effect<ReadonlyArray<StreamView>> =>
  Effect.map(ask(url, "/v1/streams"), (text) => JSON.parse(text).items)
