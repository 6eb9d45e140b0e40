/** A section of `docs/benchmarks.md`: how it is measured, and how its results are shown. */
import type { Kafka } from "./Kafka.ts"
import type { Postgres } from "./Postgres.ts"

/** Measured values of one run by name, in the units of their names. */
export type Run = Readonly<Record<string, number>>

export interface Options {
  /** Instead of the section's own number. */
  readonly records?: number
  readonly runs?: number
  /** Whether to print the profile of an additional run, which is not counted. */
  readonly profile: boolean
  /** The broker; it starts with the first call. */
  readonly kafka: () => Promise<Kafka>
  /** The database server; it starts with the first call. */
  readonly postgres: () => Promise<Postgres>
}

/** A value with a limit that it must not exceed, or must reach. */
export interface Goal {
  readonly name: string
  readonly goal: { readonly atMost: number } | { readonly atLeast: number }
  readonly unit: string
  readonly digits: number
  readonly value: (runs: ReadonlyArray<Run>) => number
  /** Markdown, shown while the goal is not reached: the reason, as a sentence. Goals may share it. */
  readonly shortfall?: string
}

export interface Section {
  /** Its name for `--only`. */
  readonly name: string
  readonly title: string
  /** Markdown below the tables: what was measured, and how. */
  readonly explanation: string
  readonly goals?: ReadonlyArray<Goal>
  /** Empty if the results are of an earlier form of the section, with other values; then the page leaves the section out. */
  readonly table: (runs: ReadonlyArray<Run>) => string
  /** The runs of each section with this function: these are measured together. */
  readonly measure: (options: Options) => Promise<Readonly<Record<string, ReadonlyArray<Run>>>>
}

/** The values of so many runs, one after another. */
export const repeat = async (runs: number, run: () => Promise<Run>): Promise<ReadonlyArray<Run>> => {
  const measured: Array<Run> = []
  for (let done = 0; done < runs; done++) measured.push(await run())
  return measured
}
