/**
 * Measurements as a Markdown table: medians over runs, each row compared with the floor of the same run.
 */
export interface Measurement {
  readonly rows: number
  readonly seconds: number
  readonly cpuSeconds: number
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export const table = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [header, header.map((_, i) => (i === 0 ? "---" : "---:")), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join(
    "\n"
  )

const rate = ({ rows, seconds }: Measurement) => rows / seconds
const cpu = ({ cpuSeconds, rows }: Measurement) => (cpuSeconds / rows) * 100_000

/** `runs`: measurements by name; a ratio is computed within each run, then the median of the ratios. */
export const compareWithFloor = (
  floor: string,
  unit: string,
  runs: ReadonlyArray<Readonly<Record<string, Measurement>>>
): string =>
  table(
    ["", `${unit}/s`, "rate / floor", "CPU s per 100k", "CPU / floor"],
    Object.keys(runs[0] ?? {}).map((name) => {
      const medianOf = (of: (measured: Measurement) => number) => median(runs.map((run) => of(run[name]!)))
      const ratio = (of: (measured: Measurement) => number) =>
        median(runs.map((run) => of(run[name]!) / of(run[floor]!)))
      return [
        name,
        Math.round(medianOf(rate)).toLocaleString("en"),
        ratio(rate).toFixed(2),
        medianOf(cpu).toFixed(2),
        ratio(cpu).toFixed(2)
      ]
    })
  )
