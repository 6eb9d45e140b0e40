/** `rollcall start` as a measured process, in a folder of its own. */
import { mkdtemp, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Kafka } from "./Kafka.ts"
import { type Line, Process } from "./Process.ts"

/** The stream that most benchmarks read. */
export const stream = "greenhouse:bench/ats.application"

/** A folder that is removed in the end. */
export class Folder {
  readonly path: string

  private constructor(path: string) {
    this.path = path
  }

  static async make(): Promise<Folder> {
    return new Folder(await mkdtemp(join(tmpdir(), "rollcall-bench-")))
  }

  /** Size of the SQLite store and of its write-ahead log, bytes. */
  async storeBytes(): Promise<number> {
    const sizes = await Promise.all(
      ["", "-wal"].map((suffix) => stat(`${this.path}/rollcall.db${suffix}`).then(({ size }) => size, () => 0))
    )
    return sizes.reduce((sum, size) => sum + size, 0)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.path, { recursive: true, force: true })
  }
}

export type Settings = Readonly<Record<string, string>>

/** Candidates are derived from the applications, as in the default configuration. */
export const withCandidates: Settings = { ROLLCALL_MODELS: "ats.application,ats.candidate" }

/**
 * Settings of a service that reads one stream of the origin, and polls or sweeps it only on command. `store`: the folder of the SQLite
 * file, or the URL of a PostgreSQL database.
 */
export const settingsFor = (
  store: Pick<Folder, "path"> | string,
  originUrl: string
): Settings => ({
  ...typeof store === "string"
    ? { DATABASE_URL: store }
    : { ROLLCALL_STORE: `sqlite:${join(store.path, "rollcall.db")}` },
  ROLLCALL_API_URL: originUrl,
  ROLLCALL_API_KEY: "bench",
  ROLLCALL_INTEGRATIONS: "greenhouse:bench",
  ROLLCALL_MODELS: "ats.application",
  ROLLCALL_INTERVAL: "1 hour",
  ROLLCALL_SWEEP_INTERVAL: "1 day",
  ROLLCALL_HTTP_PORT: "0",
  ROLLCALL_LOG_FORMAT: "json"
})

/** Settings of a service that publishes to this topic. */
export const kafkaSettings = ({ brokers }: Pick<Kafka, "brokers">, topic: string) => ({
  KAFKA_BROKERS: brokers,
  ROLLCALL_TOPIC: topic
})

export class Service {
  readonly process: Process
  /** Base address of its operating API. */
  readonly url: string

  private constructor(process: Process, url: string) {
    this.process = process
    this.url = url
  }

  /** Returns when HTTP answers. `profiles`: folder for the CPU profile of each thread. */
  static async start(settings: Settings, profiles: string | null = null): Promise<Service> {
    const options = profiles === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profiles}`]
    const process = new Process("bin/rollcall.js", ["start"], "stderr", settings, options)
    try {
      const { text } = await process.line(`"started"`)
      return new Service(process, JSON.parse(text).url)
    } catch (error) {
      await process.stop()
      throw error
    }
  }

  /** Waits for a line of the log with this message. */
  logged(message: string): Promise<Line> {
    return this.process.line(`"${message}"`)
  }

  async command(name: "poll" | "sweep"): Promise<void> {
    const response = await fetch(`${this.url}/v1/streams/${stream}/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json" }
    })
    if (!response.ok) throw new Error(`${name}: ${response.status} ${await response.text()}`)
  }

  /** Runs a sweep; returns the line that reports its end. */
  async sweep(): Promise<Line> {
    await this.command("sweep")
    return await this.logged("sweep complete")
  }

  /** A gauge of its metrics; 0 if there is none yet. */
  async gauge(name: string): Promise<number> {
    const metrics = await (await fetch(`${this.url}/metrics`)).text()
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "m").exec(metrics)?.[1] ?? 0)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.process.stop()
  }
}
