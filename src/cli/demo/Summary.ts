/** The summary at the end of the demo, as text or as JSON. Pure. */
import * as Arr from "effect/Array"
import * as Record from "effect/Record"
import { paint } from "../../telemetry/TerminalText.ts"
import { formatCount, formatPlural } from "../terminal/Tables.ts"
import type { Difference } from "./ConsistencyCheck.ts"

export type PluginCounts = Readonly<Record<string, Readonly<Record<string, number>>>>

export interface Summary {
  readonly seed: number
  readonly seconds: number
  readonly records_read: number
  readonly events: Readonly<Record<"created" | "updated" | "deleted", number>>
  /** Time from a change to its event in the log, without the backfill; null if nothing changed. */
  readonly detection_seconds: { readonly p50: number; readonly p95: number } | null
  readonly mutations: Readonly<Record<string, number>>
  /** Number of writes by plugin and name of the write. */
  readonly plugins: PluginCounts
  /** Number of events that plugins' writes caused, by plugin and model. */
  readonly echoes: PluginCounts
  readonly check: {
    readonly passed: boolean
    /** Number of compared records of the world. */
    readonly compared: number
    /** Number of records left out because their latest observation is not published yet. */
    readonly pending: number
    /** Kinds of mutation that never happened, so the check proves nothing about them. */
    readonly missing: ReadonlyArray<string>
    /** At most ten differences. */
    readonly differences: ReadonlyArray<Difference>
  }
}

/** Counts by plugin and name. */
export const countsOf = (
  items: ReadonlyArray<{ readonly plugin: string; readonly name: string }>
): PluginCounts =>
  Record.map(
    Arr.groupBy(items, ({ plugin }) => plugin),
    (own) => Record.map(Arr.groupBy(own, ({ name }) => name), ({ length }) => length)
  )

const countsText = (counts: PluginCounts): string =>
  Object.entries(counts).map(([plugin, own]) =>
    `${plugin} ${Object.entries(own).map(([name, count]) => `${name} ${formatCount(count)}`).join(", ")}`
  ).join("; ") || "none"

/** Events, writes, their echoes and the check, a line each; further lines if the check failed. */
export const summaryText = (
  { check, detection_seconds: lag, echoes, events, plugins, records_read, seconds }: Summary
): string => {
  const published = Object.entries(events).map(([kind, count]) => `${formatCount(count)} ${kind}`).join(", ")
  const found = lag === null
    ? ""
    : `; half of the changes were found within ${lag.p50.toFixed(1)} s, 95 % within ${lag.p95.toFixed(1)} s`
  const left = check.pending === 0 ? "" : `; left out: ${formatPlural(check.pending, "record")} not yet confirmed`
  return [
    "",
    paint("bold", `In ${seconds.toFixed(0)} s ${formatCount(records_read)} records were read.`),
    `  events   ${published}${found}`,
    `  writes   ${countsText(plugins)}`,
    `  echoes   ${countsText(echoes)}`,
    check.passed
      ? paint(
        "green",
        `  check    passed: the events reproduce all ${formatCount(check.compared)} records of the world${left}`
      )
      : paint("red", "  check    FAILED"),
    ...check.missing.map((kind) => `    the mutation "${kind}" never happened`),
    ...check.differences.map(({ id, stream, why }) => `    ${stream} ${id}: ${why}`)
  ].join("\n")
}
