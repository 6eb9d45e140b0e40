/** A section of `docs/benchmarks.md`: how it is measured, and how its results are shown. */
import type { Kafka } from "./Kafka.ts"
import type { Postgres } from "./Postgres.ts"

/** Measured values of one run by name, in the units of their names. */
export type Run = Readonly<Record<string, number>>

/** A share of the processor time by group of functions, largest first. */
export interface Profile {
  readonly title: string
  readonly groups: ReadonlyArray<readonly [group: string, share: number]>
}

export interface Measured {
  readonly runs: ReadonlyArray<Run>
  /** Printed, and not kept. */
  readonly profiles?: ReadonlyArray<Profile>
}

export interface Options {
  /** Instead of the section's own number. */
  readonly records?: number
  readonly runs?: number
  /** Whether to profile an additional run, which is not counted. */
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
  /** Sections with the same function are measured together; `wanted` has the names of those that were selected. */
  readonly measure: (options: Options, wanted: ReadonlySet<string>) => Promise<Readonly<Record<string, Measured>>>
}

/** The values of so many runs, one after another. */
export const repeat = async (runs: number, run: () => Promise<Run>): Promise<ReadonlyArray<Run>> => {
  const measured: Array<Run> = []
  for (let done = 0; done < runs; done++) measured.push(await run())
  return measured
}
