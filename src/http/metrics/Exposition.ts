/**
 * Metrics whose values are read for each scrape or export and need no metric object, and their form in the text format of Prometheus.
 *
 * Gotchas
 * - A family's lines must be together, so each family collects its own.
 */

import type { Family, Labels, Series } from "../../telemetry/MetricExport.ts"

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
const mustEscape = /[\\"\n]/
const escapeValue = (text: string): string =>
  mustEscape.test(text) ? text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : text

const formatValue = (value: number): string =>
  value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : String(value)

const labelText = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`)
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`
}

export const gauge = (name: string, description: string): Family => ({ name, description })

export class Exposition {
  readonly #families = new Map<Family, Array<Series>>()

  /** Adds a series. */
  set(family: Family, value: number, labels: Labels = {}): void {
    const series = this.#families.get(family)
    if (series === undefined) this.#families.set(family, [{ family, value, labels }])
    else series.push({ family, value, labels })
  }

  /** The series of each metric together. */
  get series(): ReadonlyArray<Series> {
    return [...this.#families.values()].flat()
  }

  /** Ends with a line break unless there is no series. */
  get text(): string {
    return [...this.#families].map(([{ description, name, type = "gauge" }, series]) =>
      [
        `# HELP ${name} ${escapeHelp(description)}`,
        `# TYPE ${name} ${type}`,
        ...series.map(({ labels, value }) => `${name}${labelText(labels)} ${formatValue(value)}`),
        ""
      ].join("\n")
    ).join("")
  }
}
