/** Statistics of many worlds: the kinds of steps in them, and how they ended. */
import { commands, faults, fleetTroubles, mutations, troubles } from "../plan/Plan.ts"
import type { Verdict } from "../Simulation.ts"

const quantile = (sorted: ReadonlyArray<number>, part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0

const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0)

export class Statistics {
  readonly failed: Array<Verdict> = []
  readonly #started = Date.now()
  readonly #columns = {
    mutations: [] as Array<number>,
    "kinds of mutation": [] as Array<number>,
    "kinds of fault": [] as Array<number>,
    requests: [] as Array<number>,
    events: [] as Array<number>
  }
  readonly #kinds: Record<string, number> = {}
  worlds = 0

  add(verdict: Verdict): void {
    this.worlds++
    if (verdict.violations.length > 0) this.failed.push(verdict)
    this.#columns.mutations.push(sum(verdict.mutations))
    this.#columns["kinds of mutation"].push(Object.keys(verdict.mutations).length)
    this.#columns["kinds of fault"].push(Object.keys(verdict.faults).length)
    this.#columns.requests.push(verdict.requests)
    this.#columns.events.push(verdict.events)
    for (const [kind, count] of [...Object.entries(verdict.mutations), ...Object.entries(verdict.faults)]) {
      this.#kinds[kind] = (this.#kinds[kind] ?? 0) + count
    }
  }

  get seconds(): number {
    return (Date.now() - this.#started) / 1000
  }

  summary() {
    return {
      worlds: this.worlds,
      failed: this.failed.length,
      seeds: this.failed.slice(0, 20).map(({ seed }) => seed),
      seconds: this.seconds,
      perWorld: Object.fromEntries(
        Object.entries(this.#columns).map(([name, values]) => {
          const sorted = [...values].sort((a, b) => a - b)
          return [name, { least: sorted[0] ?? 0, median: quantile(sorted, 0.5), most: sorted.at(-1) ?? 0 }]
        })
      ),
      kinds: this.#kinds
    }
  }

  table(): string {
    const { failed, perWorld, seconds, worlds } = this.summary()
    const lines = [
      `${worlds} worlds in ${seconds.toFixed(0)} s (${
        (worlds / seconds).toFixed(1)
      } a second), ${failed} with violations`,
      "",
      `${"per world".padEnd(20)}${["least", "median", "most"].map((name) => name.padStart(8)).join("")}`,
      ...Object.entries(perWorld).map(([name, { least, median, most }]) =>
        `${name.padEnd(20)}${[least, median, most].map((value) => String(value).padStart(8)).join("")}`
      )
    ]
    const families = {
      mutations,
      "faults of the API": faults,
      "troubles of the service": troubles,
      "troubles of fleets": fleetTroubles,
      commands
    }
    for (const [family, kinds] of Object.entries(families)) {
      lines.push("", `${family}: ${kinds.map((kind) => `${kind} ${this.#kinds[kind] ?? 0}`).join(", ")}`)
    }
    return lines.join("\n")
  }
}
