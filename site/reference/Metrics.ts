/** The page of metrics: names, types and descriptions from the sources, and the alerts that read each. */
import { globSync } from "node:fs"
import { link, read, root, table } from "./Markdown.ts"

interface Metric {
  readonly name: string
  readonly type: string
  readonly description: string
}

const text = String.raw`("(?:[^"\\]|\\.)*"(?:\s*\+\s*"(?:[^"\\]|\\.)*")*)`
/** The four forms in which the sources define a metric. */
const definitions = [
  String.raw`\b(counter|gauge|histogram)\(\s*"(\w+)",\s*${text}`,
  String.raw`\bMetric\.(counter|gauge|histogram)\(\s*"(\w+)",\s*\{\s*description:\s*${text}`,
  String.raw`: Family = \{\s*name: "(\w+)",\s*description:\s*${text},\s*type: "(counter)"`
].map((form) => new RegExp(form, "g"))

/** The value of a text that is written as the sum of parts. */
const valueOf = (source: string): string =>
  [...source.matchAll(/"(?:[^"\\]|\\.)*"/g)].map(([part]): string => JSON.parse(part)).join("")

const metricsIn = (source: string): ReadonlyArray<Metric> =>
  definitions.flatMap((form, index) =>
    [...source.matchAll(form)].map(([, one = "", two = "", three = ""]) =>
      index === 2
        ? { type: three, name: one, description: valueOf(two) }
        : { type: one, name: two, description: valueOf(three) }
    )
  )

const sources = (): ReadonlyArray<string> =>
  globSync("src/**/*.ts", { cwd: root, exclude: (name) => name.endsWith(".test.ts") })
    .map(read)

export const metrics = (): ReadonlyArray<Metric> =>
  sources().flatMap(metricsIn).toSorted((one, other) => one.name < other.name ? -1 : 1)

/** Name and expression of each alert. */
const alerts = (): ReadonlyArray<{ readonly name: string; readonly text: string }> =>
  read("deploy/prometheus/rules.yml").split(/^ +- alert: /m).slice(1).map((text) => ({
    name: text.slice(0, text.indexOf("\n")),
    text
  }))

export const metricsPage = (): string => {
  const rules = alerts()
  const rows = metrics().map(({ description, name, type }) => {
    const reading = rules.filter(({ text }) => new RegExp(`\\b${name}(_bucket|_sum|_count)?\\b`).test(text))
      .map((alert) => link(alert.name.replace("Rollcall", ""), `../runbooks/${alert.name}.md`))
    return [
      `\`${name}\``,
      description + (type === "histogram" ? " (histogram)" : "") +
      (reading.length > 0 ? ` → ${reading.join(", ")}` : "")
    ]
  })
  return `# Metrics

The metrics of \`GET /metrics\`, which can be [exported over OTLP](../configuration.md#traces-and-metrics-over-otlp) too. Names that end in \`_total\` are
counters. No metric has a label for an integration or a stream ([why](../decisions/metrics-and-traces.md)). After → are the alerts that read the metric.

${table(["metric", "value"], rows)}`
}
