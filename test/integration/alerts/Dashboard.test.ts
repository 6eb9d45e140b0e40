/** Every metric and label that an alert or a panel of the dashboard uses is in the scrape of a real process. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Broker from "../kafka/Broker.ts"
import * as Server from "../postgres/Server.ts"
import { createTags, idsOf, integration, make, type Process } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const missing = Prometheus.missing ?? Broker.missing ?? Server.missing
const { database } = Server.ofFile()
const root = fileURLToPath(new URL("../../..", import.meta.url))
const read = (path: string) => readFileSync(join(root, path), "utf8")

interface Panel {
  readonly title: string
  readonly targets?: ReadonlyArray<{ readonly expr: string; readonly legendFormat: string }>
}

const panels = (JSON.parse(read("deploy/grafana/dashboard.json")) as { readonly panels: ReadonlyArray<Panel> }).panels
const targets = panels.flatMap(({ targets = [], title }) => targets.map((target) => ({ ...target, title })))
const rules = [...read("deploy/prometheus/rules.yml").matchAll(/^ +expr: (\|\n(?: {10,}.*\n)+|.*)$/gm)]
  .map(([, expr = ""]) => expr)

/** What Grafana puts into a query. */
const filledIn = (expr: string): string =>
  expr.replaceAll("$__rate_interval", "5m").replaceAll('job=~"$job"', 'job=~"rollcall"')

const queries: ReadonlyArray<string> = [...rules, ...targets.map(({ expr }) => filledIn(expr))]

/** Labels that Prometheus adds. */
const added = new Set(["job", "instance"])

/** Series of a scrape: by metric, the values of each label. */
type Series = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>

const seriesOf = (scrapes: ReadonlyArray<string>): Series => {
  const found = new Map<string, Map<string, Set<string>>>()
  for (const line of scrapes.join("\n").split("\n")) {
    const [, name, labels = ""] = /^([a-z_]+)(?:\{(.*)\})? \S+$/.exec(line) ?? []
    if (name === undefined) continue
    const values = found.get(name) ?? new Map<string, Set<string>>()
    found.set(name, values)
    for (const [, label = "", value = ""] of labels.matchAll(/([a-z_]+)="([^"]*)"/g)) {
      values.set(label, (values.get(label) ?? new Set()).add(value))
    }
  }
  return found
}

/** The metrics, labels and values of a query that no series has. */
const unknownIn = (query: string, series: Series): ReadonlyArray<string> => {
  const uses = [...query.matchAll(/\b((?:rollcall|process|nodejs)_[a-z_]+)(?:\{([^}]*)\})?/g)]
  const metrics = uses.map(([, name = ""]) => name)
  const wrongMetrics = metrics.filter((name) => !series.has(name))
  const wrongMatchers = uses.flatMap(([, name = "", matchers = ""]) =>
    [...matchers.matchAll(/([a-z_]+)(=~?)"([^"]*)"/g)].flatMap(([, label = "", operator, value = ""]) => {
      if (added.has(label)) return []
      const known = series.get(name)?.get(label)
      const wanted = operator === "=~" ? value.split("|") : [value]
      return wanted.filter((one) => known?.has(one) !== true).map((one) => `${name}{${label}="${one}"}`)
    })
  )
  const wrongGroups = [...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = ""]) =>
    list.split(",").map((label) => label.trim()).filter((label) =>
      !added.has(label) && !metrics.some((name) => series.get(name)?.has(label) === true)
    ).map((label) => `by (${label}) in ${query}`)
  )
  return [...wrongMetrics, ...wrongMatchers, ...wrongGroups]
}

/** Settles its first delivery and fails after that. */
const failing = `(() => {
  let calls = 0
  return Plugin.make("audience").on("ats.tag.created", {}, () => calls++ === 0
    ? Effect.void : Effect.fail(new Plugin.Transient({ message: "closed" }))).with({ from: "oldest" })
})()`

const scrape = ({ url }: Process) => Effect.promise(async () => await (await fetch(`${url}/metrics`)).text())

describe.skipIf(missing !== null)(`the queries${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  it("of the dashboard are valid, and their legends use labels of the query", () => {
    const groups = [{
      name: "dashboard",
      rules: targets.map(({ expr }, index) => ({ record: `q:${index}`, expr: filledIn(expr) }))
    }]
    const folder = mkdtempSync(join(tmpdir(), "rollcall-dashboard-"))
    const file = join(folder, "queries.yml")
    writeFileSync(file, JSON.stringify({ groups }))
    const output = execFileSync("promtool", ["check", "rules", file], { encoding: "utf8" })
    rmSync(folder, { recursive: true })
    assert.include(output, `${targets.length} rules found`)
    assert.isAbove(targets.length, 40)
    const wrong = targets.filter(({ expr, legendFormat }) =>
      [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].some(([, label = ""]) =>
        !new RegExp(`by \\([^)]*\\b${label}\\b`).test(expr)
      )
    )
    assert.deepStrictEqual(wrong, [])
  })

  it.live(
    "of alerts and panels use only metrics, labels and values that real processes export",
    () =>
      Effect.gen(function*() {
        const { brokers } = Context.get(yield* Layer.build(Broker.layer), Broker.Broker)
        const full = yield* make({
          store: yield* database,
          plugins: failing,
          environment: {
            KAFKA_BROKERS: brokers.join(),
            ROLLCALL_ALLOW_PLAINTEXT: "kafka",
            ROLLCALL_TOPIC: `dashboard-${randomUUID()}.{model}`
          }
        })
        const small = yield* make({ sandbox: full.sandbox })
        yield* full.start()
        yield* small.start()
        yield* full.sandbox.setFaults({ faults: [{ kind: "rate_limit", retryAfter: 1, count: 1 }] })
        yield* createTags(full, 2, "new")
        for (const id of (yield* idsOf(full, "hris.skill")).slice(0, 6)) {
          yield* full.sandbox.mutate({ op: "delete", integration, model: "hris.skill", id })
        }
        const deadline = Date.now() + 120_000
        let unknown: ReadonlyArray<string>
        do {
          yield* Effect.sleep("200 millis")
          const series = seriesOf([yield* scrape(full), yield* scrape(small)])
          unknown = [...new Set(queries.flatMap((query) => unknownIn(query, series)))]
        } while (unknown.length > 0 && Date.now() < deadline)
        assert.deepStrictEqual(unknown, [])
      })
  )

  it("are refused if a metric, a label or a value does not exist", () => {
    const series = seriesOf(['rollcall_streams{model="ats.tag",state="late"} 1', "rollcall_fleet_processes 1"])
    const unknown = (query: string) => unknownIn(query, series)
    assert.deepStrictEqual(unknown('sum by (job, model) (rollcall_streams{job="rollcall",state="late"}) > 0'), [])
    assert.deepStrictEqual(unknown("rollcall_stream"), ["rollcall_stream"])
    assert.deepStrictEqual(unknown('rollcall_streams{state=~"late|gone"}'), ['rollcall_streams{state="gone"}'])
    assert.deepStrictEqual(unknown('rollcall_fleet_processes{state="alive"}'), [
      'rollcall_fleet_processes{state="alive"}'
    ])
    assert.deepStrictEqual(unknown("max by (plugin) (rollcall_streams)"), [
      "by (plugin) in max by (plugin) (rollcall_streams)"
    ])
  })
})
