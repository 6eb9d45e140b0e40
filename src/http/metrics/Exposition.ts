/**
 * Gauges in the text format of Prometheus, written line by line: thousands of series need no objects besides their text.
 *
 * Gotchas
 * - A family's lines must be together, so each family collects its own.
 */

/** A gauge: its name, and its description for people. */
export interface Gauge {
  readonly name: string
  readonly description: string
}

export type Labels = Readonly<Record<string, string>>

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
const mustEscape = /[\\"\n]/
const escapeValue = (text: string): string =>
  mustEscape.test(text) ? text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : text

const formatValue = (value: number): string =>
  value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : String(value)

/** Label pairs as text. Series with labels in common can share it. */
export const labelText = (labels: Labels): string =>
  Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`).join(",")

export class Exposition {
  readonly #families = new Map<Gauge, Array<string>>()

  /** Adds a series. `labels`: text of `labelText`, empty for none. */
  set(gauge: Gauge, value: number, labels = ""): void {
    let lines = this.#families.get(gauge)
    if (lines === undefined) {
      lines = [`# HELP ${gauge.name} ${escapeHelp(gauge.description)}`, `# TYPE ${gauge.name} gauge`]
      this.#families.set(gauge, lines)
    }
    lines.push(`${gauge.name}${labels === "" ? "" : `{${labels}}`} ${formatValue(value)}`)
  }

  /** Ends with a line break unless there is no series. */
  get text(): string {
    return [...this.#families.values()].map((lines) => `${lines.join("\n")}\n`).join("")
  }
}
