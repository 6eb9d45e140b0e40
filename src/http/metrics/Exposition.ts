/**
 * Metrics in the text format of Prometheus, for values that are read for each scrape and need no metric object.
 *
 * Gotchas
 * - A family's lines must be together, so each family collects its own.
 */

/** A metric: its name, its description for people, and its type. */
export interface Family {
  readonly name: string
  readonly description: string
  /** Default: a gauge. */
  readonly type?: "counter"
}

export type Labels = Readonly<Record<string, string>>

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

export class Exposition {
  readonly #families = new Map<Family, Array<string>>()

  /** Adds a series. */
  set(family: Family, value: number, labels: Labels = {}): void {
    const { description, name, type = "gauge" } = family
    let lines = this.#families.get(family)
    if (lines === undefined) {
      lines = [`# HELP ${name} ${escapeHelp(description)}`, `# TYPE ${name} ${type}`]
      this.#families.set(family, lines)
    }
    lines.push(`${name}${labelText(labels)} ${formatValue(value)}`)
  }

  /** Ends with a line break unless there is no series. */
  get text(): string {
    return [...this.#families.values()].map((lines) => `${lines.join("\n")}\n`).join("")
  }
}
