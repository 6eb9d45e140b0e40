/** The origin's process, and the commands that it understands. */
import { Process } from "../Process.ts"
import type { Form } from "./Applications.ts"

export interface Counts {
  readonly records: number
  /** Time of the first request, Unix ms; 0: none. */
  readonly firstAt: number
}

export class RunningOrigin {
  readonly url: string
  readonly #process: Process

  private constructor(url: string, process: Process) {
    this.url = url
    this.#process = process
  }

  static async start(records: number, form: Form = "full"): Promise<RunningOrigin> {
    const process = new Process("bench/origin/Origin.ts", [String(records), form], "stdout")
    return new RunningOrigin((await process.line("http")).text, process)
  }

  async #send<A>(method: "GET" | "POST", command: string): Promise<A> {
    const response = await fetch(new URL(`/control/${command}`, this.url), { method })
    if (!response.ok) throw new Error(`the origin responded with ${response.status} to ${command}`)
    return await response.json() as A
  }

  /** Since they were reset. */
  counts(): Promise<Counts> {
    return this.#send("GET", "counts")
  }

  async resetCounts(): Promise<void> {
    await this.#send("POST", "counts")
  }

  /** Restores the content of the start. */
  async reset(): Promise<void> {
    await this.#send("POST", "reset")
  }

  /** Returns how many records changed. */
  async change(count: number): Promise<number> {
    const { changed } = await this.#send<{ changed: number }>("POST", `change?count=${count}`)
    return changed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#process.stop()
  }
}
