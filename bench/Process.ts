/**
 * A measured process, observed from outside: its output lines, CPU time and peak memory.
 *
 * Gotchas
 * - CPU time comes from `/proc`, in hundredths of a second: it needs Linux, and times below a second are too inexact.
 */
import { spawn } from "node:child_process"
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

export class Process {
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
    settings: Readonly<Record<string, string>> = {}
  ) {
    this.#child = spawn(process.execPath, [join(import.meta.dirname, "..", script), ...args], {
      env: { PATH: process.env["PATH"] ?? "", ...settings },
      stdio: ["ignore", output === "stdout" ? "pipe" : "ignore", output === "stderr" ? "pipe" : "inherit"]
    })
    this.#ended = new Promise((resolve) => this.#child.once("exit", resolve))
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
      for (let line; (line = this.#lines.shift()) !== undefined;) if (line.text.includes(text)) return line
      if (this.#hasEnded) throw new Error(`the process ended before it printed "${text}"`)
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

  async stop(): Promise<void> {
    this.#child.kill("SIGTERM")
    await this.#ended
  }
}
