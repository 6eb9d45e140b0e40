/**
 * The real program as a process of its own: hides how it is started, where it listens, how it is asked and how it ends.
 *
 * Invariants
 * 1. Nothing of it outlives the scope in which it was launched.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { StreamView } from "../../../src/ops/Api.ts"

const program = join(import.meta.dirname, "../../../bin/rollcall.js")

export interface Service {
  /** Address of its operating API once it says that it started; dies with its log if it ends before that. */
  readonly url: Effect.Effect<string>
  /** Whether the process is still there. */
  readonly alive: () => boolean
  /** Sends the signal and waits for the end; the exit code, null after `SIGKILL`. */
  readonly end: (signal: "SIGKILL" | "SIGTERM") => Effect.Effect<number | null>
  /** The last lines of its log. */
  readonly log: () => string
}

/** `rollcall start` on a free port with these settings; its environment is this process's without our own variables. */
export const launch = (settings: Readonly<Record<string, string>>): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const inherited = Object.entries(process.env).filter(([name]) =>
        !/^(ROLLCALL_|KAFKA_|DATABASE_URL|NODE_)/.test(name)
      )
      const child = spawn(process.execPath, [program, "start"], {
        env: { ...Object.fromEntries(inherited), ROLLCALL_HTTP_PORT: "0", ROLLCALL_LOG_FORMAT: "json", ...settings },
        stdio: ["ignore", "ignore", "pipe"]
      })
      const lines: Array<string> = []
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
      const started = new Promise<string>((resolve, reject) => {
        createInterface(child.stderr).on("line", (line) => {
          lines.push(line)
          if (lines.length > 50) lines.shift()
          const fact: { message?: string; url?: string } = line.startsWith("{") ? JSON.parse(line) : {}
          if (fact.message === "started" && fact.url !== undefined) resolve(fact.url)
        }).on("close", () => reject(new Error(`the service ended before it had started:\n${lines.join("\n")}`)))
      })
      started.catch(() => undefined)
      const service: Service = {
        url: Effect.promise(() => started),
        alive: () => child.exitCode === null && child.signalCode === null,
        end: (signal) =>
          Effect.promise(() => {
            child.kill(signal)
            return ended
          }),
        log: () => lines.join("\n")
      }
      return service
    }),
    (service) => service.end("SIGKILL")
  )

/** What the operating API answers. */
export const ask = (url: string, path: string): Effect.Effect<string> =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${path}`)
    const text = await response.text()
    if (!response.ok) throw new Error(`${path} was answered ${response.status}: ${text}`)
    return text
  })

export const streams = (url: string): Effect.Effect<ReadonlyArray<StreamView>> =>
  Effect.map(ask(url, "/v1/streams"), (text) => JSON.parse(text).items)
