/**
 * The setup of all benchmarks: the service with one stream of applications from a page server, in its own folder.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Process } from "./Process.ts"

export interface Bench {
  readonly server: Process
  readonly url: string
  /** SQLite file of the service. */
  readonly file: string
  /** Starts the service: it reads the list immediately, and again a second after each run, and does not poll. */
  readonly service: (more?: Readonly<Record<string, string>>) => Process
}

export const settings = (file: string): Readonly<Record<string, string>> => ({
  ROLLCALL_STORE: `sqlite:${file}`,
  ROLLCALL_API_KEY: "bench",
  ROLLCALL_HTTP_PORT: "0",
  ROLLCALL_LOG_FORMAT: "json"
})

/** Stops the processes and removes the folder when `use` ends. */
export const withBench = async <A>(records: number, use: (bench: Bench) => Promise<A>): Promise<A> => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"))
  const server = new Process("bench/PageServer.ts", [String(records)], "stdout")
  const services: Array<Process> = []
  try {
    const url = (await server.line("http")).text
    const file = join(folder, "rollcall.db")
    const service = (more: Readonly<Record<string, string>> = {}) => {
      const started = new Process("bin/rollcall.js", ["start"], "stderr", {
        ...settings(file),
        ROLLCALL_API_URL: url,
        ROLLCALL_INTEGRATIONS: "bench:one",
        ROLLCALL_MODELS: "ats.application",
        ROLLCALL_INTERVAL: "1 hour",
        ROLLCALL_SWEEP_INTERVAL: "1 second",
        ...more
      })
      services.push(started)
      return started
    }
    return await use({ server, url, file, service })
  } finally {
    for (const process of [...services, server]) await process.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
