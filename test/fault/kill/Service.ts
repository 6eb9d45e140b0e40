/**
 * The real program as a process of its own: hides how it is started, where it listens, how it is asked and how it ends,
 * and what it tells of its durable steps.
 *
 * Invariants
 * 1. Nothing of it outlives the scope in which it was launched.
 * 2. Whoever waits for it waits for a minute at most, and is told for what, with the end of its log.
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
import type { StreamView } from "../../../src/http/streams/StreamApi.ts"
import type { Doom, Told } from "./Doom.ts"
import { patience, timely } from "./Patience.ts"

const program = join(import.meta.dirname, "../../../bin/rollcall.js")
const steps = pathToFileURL(join(import.meta.dirname, "Steps.ts")).href

/** Kinds of steps that take in a page of a list. */
const pages: ReadonlySet<string> = new Set(["backfill", "backfill's end", "sweep", "sweep's end", "poll", "poll's end"])

export interface Service {
  /** Address of its operating API once it says that it started; dies with its log if it ends before that. */
  readonly url: Effect.Effect<string>
  /** Whether the process is still there. */
  readonly alive: () => boolean
  readonly pid: number
  /** Kinds of its durable steps so far, oldest first. */
  readonly steps: ReadonlyArray<string>
  /** From its start to the first page that it committed, ms; null = none yet. */
  readonly recovery: () => number | null
  /** Whether it has begun a transaction that is not committed. */
  readonly isWriting: () => boolean
  /** Once it is at the step it was doomed at: the kind of that step; null if it ends before. */
  readonly doomed: Effect.Effect<string | null>
  /** Waits for the end, however it comes; the exit code, null after `SIGKILL`. */
  readonly ended: Effect.Effect<number | null>
  /** Sends the signal and waits for the end; the exit code, null after `SIGKILL`. */
  readonly end: (signal: "SIGKILL" | "SIGTERM") => Effect.Effect<number | null>
  /** Sends the signal and waits for nothing. */
  readonly signal: (signal: "SIGSTOP" | "SIGCONT") => Effect.Effect<void>
  /** Waits until its log holds a line with this text; dies with the log if it ends before. */
  readonly says: (text: string) => Effect.Effect<void>
  /** The last lines of its log. */
  readonly log: () => string
}

export interface Launch {
  /** Default `start`. */
  readonly command?: ReadonlyArray<string>
  readonly doom?: Doom | undefined
}

/** `rollcall start` on a free port with these settings; its environment is this process's without our own variables. */
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
      const child = spawn(process.execPath, ["--import", steps, program, ...command], {
        env: {
          ...Object.fromEntries(inherited),
          ROLLCALL_HTTP_PORT: "0",
          ROLLCALL_LOG_FORMAT: "json",
          DOOM: JSON.stringify(doom ?? null),
          ...settings
        },
        stdio: ["ignore", "ignore", "pipe", "pipe"]
      })
      const done: Array<string> = []
      let recovery: number | null = null
      let isWriting = false
      const doomed = new Promise<string | null>((resolve) =>
        createInterface(child.stdio[3] as Readable).on("line", (line) => {
          const told: Told = JSON.parse(line)
          if ("writing" in told) isWriting = told.writing
          else if ("doomed" in told) resolve(told.doomed)
          else {
            isWriting = false
            done.push(told.of)
            if (pages.has(told.of)) recovery ??= told.at - launchedAt
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
          const fact: { message?: string; url?: string } = line.startsWith("{") ? JSON.parse(line) : {}
          if (fact.message === "started" && fact.url !== undefined) resolve(fact.url)
        }).on("close", () => reject(new Error(`the service ended before it had started:\n${lines.join("\n")}`)))
      })
      started.catch(() => undefined)
      const standing = () => `process ${child.pid}, last step ${done.at(-1) ?? "none"}\n${lines.join("\n")}`
      const awaited = <A>(promise: Promise<A>, what: string) =>
        Effect.promise(() => timely(promise, `the service to ${what}`, standing))
      const said = async (text: string) => {
        while (!lines.some((line) => line.includes(text))) {
          const next = await Promise.race([once(news, "line"), ended.then(() => null)])
          if (next === null) throw new Error(`the service ended before it said "${text}":\n${lines.join("\n")}`)
        }
      }
      const service: Service = {
        url: awaited(started, "start"),
        alive: () => child.exitCode === null && child.signalCode === null,
        pid: child.pid ?? 0,
        steps: done,
        recovery: () => recovery,
        isWriting: () => isWriting,
        doomed: awaited(doomed, `come to ${JSON.stringify(doom)}`),
        ended: awaited(ended, "end"),
        signal: (signal) => Effect.sync(() => child.kill(signal)),
        end: (signal) => Effect.andThen(Effect.sync(() => child.kill(signal)), awaited(ended, `end after ${signal}`)),
        says: (text) => Effect.suspend(() => awaited(said(text), `say "${text}"`)),
        log: () => lines.join("\n")
      }
      return service
    }),
    (service) => service.end("SIGKILL")
  )

/** What the operating API answers; dies if it does not want to, takes too long, or if the connection breaks. */
export const ask = (url: string, path: string, request: RequestInit = {}): Effect.Effect<string> =>
  Effect.promise(async () => {
    const signal = AbortSignal.timeout(Duration.toMillis(patience))
    const response = await fetch(`${url}${path}`, { ...request, signal })
    const text = await timely(response.text(), `the rest of ${path}`)
    // 409: done already, or no longer to be done
    if (!response.ok && response.status !== 409) throw new Error(`${path} was answered ${response.status}: ${text}`)
    return text
  })

export const post = (url: string, path: string, body?: unknown): Effect.Effect<string> =>
  ask(url, path, {
    method: "POST",
    ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
  })

/** Approves every open hold; whether there was any. */
export const approveAll = Effect.fnUntraced(function*(url: string) {
  const { items }: { readonly items: ReadonlyArray<{ readonly id: number }> } = JSON.parse(
    yield* ask(url, "/v1/holds?state=open")
  )
  for (const { id } of items) yield* post(url, `/v1/holds/${id}/approve`)
  return items.length > 0
})

export const streams = (url: string): Effect.Effect<ReadonlyArray<StreamView>> =>
  Effect.map(ask(url, "/v1/streams"), (text) => JSON.parse(text).items)
