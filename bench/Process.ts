/**
 * A measured process, observed from outside: its output lines, CPU time and memory.
 *
 * Gotchas
 * - CPU time comes from `/proc`, in hundredths of a second: it needs Linux, and times below a second are too inexact. It is that of all
 *   threads since the process started.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"

export interface Line {
  readonly text: string
  /** Unix ms */
  readonly at: number
  /** CPU time of the process when the line arrived. */
  readonly cpuSeconds: number
}

const ticksPerSecond = 100

/** Processes that have not ended: they end with this one. */
const running = new Set<ChildProcess>()
process.once("exit", () => running.forEach((child) => child.kill("SIGKILL")))
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1))

export class Process {
  readonly startedAt = Date.now()
  readonly #child
  readonly #lines: Array<Line> = []
  readonly #ended: Promise<unknown>
  #nextLine = Promise.withResolvers<void>()
  #hasEnded = false

  /** Runs a script of the repository with Node; `output` is the stream whose lines are read. */
  constructor(
    script: string,
    args: ReadonlyArray<string>,
    output: "stdout" | "stderr",
    settings: Readonly<Record<string, string>> = {},
    nodeOptions: ReadonlyArray<string> = []
  ) {
    this.#child = spawn(process.execPath, [...nodeOptions, join(import.meta.dirname, "..", script), ...args], {
      env: { PATH: process.env["PATH"] ?? "", KAFKAJS_NO_PARTITIONER_WARNING: "1", NODE_NO_WARNINGS: "1", ...settings },
      stdio: ["ignore", output === "stdout" ? "pipe" : "ignore", output === "stderr" ? "pipe" : "inherit"]
    })
    running.add(this.#child)
    this.#ended = new Promise((resolve) => this.#child.once("exit", resolve)).then(() => running.delete(this.#child))
    const stream = this.#child[output]
    if (stream === null) throw new Error(`${output} is not read`)
    createInterface(stream).on("line", (text) => {
      this.#lines.push({ text, at: Date.now(), cpuSeconds: this.cpuSeconds })
      this.#notify()
    }).on("close", () => {
      this.#hasEnded = true
      this.#notify()
    })
  }

  #notify(): void {
    this.#nextLine.resolve()
    this.#nextLine = Promise.withResolvers()
  }

  /** The first line that contains this text and was not returned before. */
  async line(text: string): Promise<Line> {
    for (;;) {
      const found = this.#lines.findIndex((line) => line.text.includes(text))
      if (found >= 0) return this.#lines.splice(found, 1)[0]!
      if (this.#hasEnded) {
        throw new Error(`the process ended before it printed "${text}"; its last line: ${this.#lines.at(-1)?.text}`)
      }
      await this.#nextLine.promise
    }
  }

  get cpuSeconds(): number {
    const stat = this.#proc("stat")
    const [user = "0", system = "0"] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13)
    return (Number(user) + Number(system)) / ticksPerSecond
  }

  /** Largest resident memory so far. */
  get peakMegabytes(): number {
    return Number(/VmHWM:\s+(\d+) kB/.exec(this.#proc("status"))?.[1] ?? 0) / 1000
  }

  #proc(name: string): string {
    try {
      return readFileSync(`/proc/${this.#child.pid}/${name}`, "utf8")
    } catch {
      return ""
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    this.#child.kill(signal)
    await this.#ended
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }
}
