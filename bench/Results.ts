/**
 * The results of the last run of each section, in `docs/benchmarks.json`. A section that is not measured keeps its results, with the
 * time, the commit and the load of its own measurement.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, loadavg, totalmem } from "node:os"
import { join } from "node:path"
import type { Run } from "./Section.ts"

export interface Result {
  readonly runs: ReadonlyArray<Run>
  /** UTC, in minutes. */
  readonly at: string
  readonly commit: string
  /** Load average of the last minute at the start and at the end. */
  readonly load: readonly [start: number, end: number]
  readonly machine: string
  /** The command that repeats the measurement. */
  readonly command: string
}

export type Results = Readonly<Record<string, Result>>

const fileIn = (folder: string) => join(folder, "benchmarks.json")

export const readResults = (folder: string): Results =>
  existsSync(fileIn(folder)) ? JSON.parse(readFileSync(fileIn(folder), "utf8")) : {}

export const writeResults = (folder: string, results: Results): void =>
  writeFileSync(fileIn(folder), `${JSON.stringify(results, null, 1)}\n`)

const git = (...args: ReadonlyArray<string>): string => {
  try {
    return execFileSync("git", args, { encoding: "utf8", cwd: import.meta.dirname }).trim()
  } catch {
    return ""
  }
}

/** The commit whose sources are measured; changes outside of `docs` and `bench` are mentioned. */
export const currentCommit = (): string => {
  const commit = git("rev-parse", "--short", "HEAD")
  return commit === ""
    ? "unknown"
    : git("status", "--porcelain", "--", "../src", "../package.json") === ""
    ? commit
    : `${commit} with changes`
}

export const machine = (): string =>
  `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, Node ${
    process.version.slice(1)
  }`

export const load = (): number => Math.round(loadavg()[0]! * 10) / 10
