/** A service with many streams of a server that has no changes, on either database, for the benchmarks that need one. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { join } from "node:path"
import { incrementalModels } from "../src/api/Lists.ts"
import { folder } from "../test/integration/postgres/Server.ts"
import { server } from "./Postgres.ts"
import { Process } from "./Process.ts"

export interface Polled {
  readonly lists: number
  readonly streams: number
  readonly polls: number
}

export interface ManyStreams {
  readonly streams: number
  /** PostgreSQL's URL; null for SQLite. */
  readonly postgres: string | null
  /** Starts the service; stop it before the next start. */
  readonly start: () => { readonly process: Process; readonly startedAt: number }
  /** How many streams were read as a whole, how many were polled, and how often, since the counts were last reset. */
  readonly polled: (reset: boolean) => Promise<Polled>
}

/** `settings`: further variables of the service. */
export const make = (
  store: "sqlite" | "postgres",
  integrations: number,
  records: number,
  settings: Readonly<Record<string, string>> = {}
): Effect.Effect<ManyStreams, unknown, Scope.Scope> =>
  Effect.gen(function*() {
    const running: Array<Process> = []
    const launch = (...args: ConstructorParameters<typeof Process>) => {
      const process = new Process(...args)
      running.push(process)
      return process
    }
    const postgres = store === "postgres" ? yield* server : null
    const path = yield* folder
    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all(running.map((process) => process.stop()))))
    const url = (yield* Effect.promise(() =>
      launch("bench/ListServer.ts", [String(records)], "stdout").line("http")
    )).text
    const polls = new URL("/polled", url)
    return {
      streams: integrations * incrementalModels.length,
      postgres,
      start: () => ({
        startedAt: Date.now(),
        process: launch("bin/rollcall.js", ["start"], "stderr", {
          ...postgres === null ? { ROLLCALL_STORE: `sqlite:${join(path, "rollcall.db")}` } : { DATABASE_URL: postgres },
          ROLLCALL_API_URL: url,
          ROLLCALL_API_KEY: "bench",
          ROLLCALL_INTEGRATIONS: Array.from({ length: integrations }, (_, index) => `bench:${index}`).join(),
          ROLLCALL_MODELS: incrementalModels.join(),
          ROLLCALL_SWEEP_INTERVAL: "1 day",
          ROLLCALL_HTTP_PORT: "0",
          ROLLCALL_LOG_FORMAT: "json",
          ...settings
        })
      }),
      polled: async (reset) => {
        const response = await fetch(reset ? `${polls.href}?reset` : polls)
        return (await response.json()) as Polled
      }
    }
  })
