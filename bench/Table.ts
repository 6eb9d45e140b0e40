/** Measurements as Markdown tables: medians over runs. A ratio is computed within each run, then the median of the ratios. */
import type { Goal, Run } from "./Section.ts"

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The smallest value that this part of the values does not exceed. */
export const quantile = (values: ReadonlyArray<number>, part: number): number =>
  [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(part * values.length) - 1)] ?? NaN

/** Adds the prefix to the names of the values. */
export const named = (prefix: string, values: Run): Run =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}.${name}`, value]))

const line = (cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`

export const table = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [line(header), `|---${"|---:".repeat(header.length - 1)}|`, ...rows.map(line)].join("\n")

/** A value of one run; `NaN` if the run has no such value. */
export type Value = (run: Run) => number

export const valueOf = (name: string): Value => (run) => run[name] ?? NaN
export const ratioOf = (value: Value, base: Value): Value => (run) => value(run) / base(run)

export const medianOf = (runs: ReadonlyArray<Run>, value: Value): number => median(runs.map(value))

const digitsOf: Readonly<Record<string, number>> = { "×": 2, "%": 1, s: 1 }
export const goal = (
  name: string,
  value: Value,
  limit: Goal["goal"],
  unit: string,
  shortfall?: string
): Goal => ({
  name,
  goal: limit,
  unit,
  digits: digitsOf[unit] ?? 0,
  value: (runs) => medianOf(runs, value),
  ...shortfall === undefined ? {} : { shortfall }
})

/** With thousands separated by commas; `–` if it was not measured. */
export const formatted = (value: number, digits = 0): string =>
  Number.isNaN(value)
    ? "–"
    : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })

export interface Column {
  readonly title: string
  /** Value of the row with this prefix. */
  readonly value: (prefix: string) => Value
  readonly digits?: number
}

/** Values are named `<prefix>.<unit>`; a row for each prefix that at least one run has. Empty if there is none. */
export const rowsTable = (
  runs: ReadonlyArray<Run>,
  corner: string,
  names: Readonly<Record<string, string>>,
  columns: ReadonlyArray<Column>
): string => {
  const rows = Object.entries(names)
    .filter(([prefix]) => runs.some((run) => Object.keys(run).some((name) => name.startsWith(`${prefix}.`))))
    .map(([prefix, name]) => [
      name,
      ...columns.map(({ digits, value }) => formatted(medianOf(runs, value(prefix)), digits))
    ])
  return rows.length === 0 ? "" : table([corner, ...columns.map(({ title }) => title)], rows)
}

/** CPU time of 100,000 records, s. */
export const per100k = (prefix: string): Value => (run) =>
  (valueOf(`${prefix}.cpuSeconds`)(run) / valueOf(`${prefix}.records`)(run)) * 100_000
const rate = (prefix: string): Value => ratioOf(valueOf(`${prefix}.records`), valueOf(`${prefix}.seconds`))

/** CPU time of `prefix` per record, divided by that of `base`. */
export const cpuRatio = (prefix: string, base: string): Value => ratioOf(per100k(prefix), per100k(base))
/** Records per second of `prefix`, divided by those of `base`. */
export const rateRatio = (prefix: string, base: string): Value => ratioOf(rate(prefix), rate(base))

export const cpuColumn: Column = { title: "CPU s per 100k", value: per100k, digits: 2 }
export const cpuRatioColumn: Column = {
  title: "CPU / script",
  value: (prefix) => cpuRatio(prefix, "script"),
  digits: 2
}
export const rateColumn = (unit: string): Column => ({ title: `${unit}/s`, value: rate })
export const column = (title: string, unit: string, digits = 0): Column => ({
  title,
  value: (prefix) => valueOf(`${prefix}.${unit}`),
  digits
})
