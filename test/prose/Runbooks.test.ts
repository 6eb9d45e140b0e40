/** Each alert has a runbook page, each page belongs to an alert, and the on-call guide explains messages that exist. */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { consolePaths } from "../../src/http/request/ConsolePaths.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const read = (path: string) => readFileSync(join(root, path), "utf8")
const rules = read("deploy/prometheus/rules.yml")
const pages = readdirSync(join(root, "docs/runbooks")).map((name) => name.replace(/\.md$/, ""))

/** Name and text of each alert. */
const alerts = rules.split(/^ +- alert: /m).slice(1).map((text) => ({ name: text.slice(0, text.indexOf("\n")), text }))
const namesOf = (some: typeof alerts) => some.map(({ name }) => name)

const parts = [/^# \w+\n\n\*\*Severity:\*\* /, /^## Who is affected$/m, /^## Confirm$/m, /^## Fix$/m, /^## Over when$/m]

describe("the alerts", () => {
  it("have a duration, a severity, a summary, a description and the address of their page", () => {
    assert.isAbove(alerts.length, 15)
    assert.deepStrictEqual(
      namesOf(alerts.filter(({ name, text }) =>
        !/^ +for: [1-9]\d*[mh]$/m.test(text) ||
        !/^ +labels: \{severity: (critical|warning)\}$/m.test(text) ||
        !/^ +summary: \S/m.test(text) ||
        !/^ +description: \S/m.test(text) ||
        !text.includes(`runbook_url: https://runbooks.example/${name}.md\n`)
      )),
      []
    )
  })

  it("have a page each, with the same name and severity and with every part", () => {
    assert.sameMembers(pages, namesOf(alerts))
    for (const { name, text } of alerts) {
      const page = read(`docs/runbooks/${name}.md`)
      const severity = /severity: (\w+)/.exec(text)?.[1]
      assert.isTrue(page.startsWith(`# ${name}\n\n**Severity:** ${severity}. `), name)
      assert.deepStrictEqual(parts.filter((part) => !part.test(page)), [], name)
    }
  })

  it("are listed in the on-call guide", () => {
    const guide = read("docs/operating.md")
    assert.deepStrictEqual(namesOf(alerts).filter((name) => !guide.includes(`(runbooks/${name}.md)`)), [])
  })

  it("have a cause each in the table of matters, except for those whose cause only Prometheus sees", () => {
    const table = read("src/http/matters/Matters.ts").matchAll(/^ \* \| (\w+) \|.* \|(.*)\|$/gm)
    const rows = [...table].map(([, cause, alerts = ""]) => [cause, alerts.match(/Rollcall\w+/g) ?? []] as const).slice(
      1
    )
    const onlyPrometheus = [
      "Down",
      "ShardsUnowned",
      "StoreSlow",
      "RetentionFailing",
      "RedactionFailed",
      "DeliveriesLate"
    ]
    const named = [...rows.flatMap(([, names]) => names), ...onlyPrometheus.map((name) => `Rollcall${name}`)]
    assert.sameMembers([...new Set(named)], namesOf(alerts))
    const causes = new Set(read("src/http/overview/MatterViews.ts").match(/(?<=case ")\w+/g))
    assert.sameMembers(rows.map(([cause]) => cause), [...causes])
  })

  it("have a unit test each", () => {
    const tests = read("deploy/prometheus/rules.test.yml")
    assert.deepStrictEqual(namesOf(alerts).filter((name) => !tests.includes(`- name: ${name}\n`)), [])
  })
})

describe("the on-call guide", () => {
  it("explains only messages of the log that the source has", () => {
    const [, section = ""] = read("docs/operating.md").split("\n## Messages of the log\n")
    const [table = ""] = section.split("\n## ")
    const messages = [...table.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`([^`]+)`/g)].map(([, message = ""]) => message)
    )
    const paths = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    const sources = paths.filter((path) => /(?<!\.test)\.ts$/.test(path)).map((path) => read(`src/${path}`)).join("\n")
    const missing = messages.filter((message) => !message.split("…").every((part) => sources.includes(part.trim())))
    assert.isAbove(messages.length, 20)
    assert.deepStrictEqual(missing, [])
  })
})

describe("the tests with real faults", () => {
  it("let each alert fire and end", () => {
    const folder = join(root, "test/integration/alerts")
    const tests = readdirSync(folder).filter((name) => name.endsWith(".long.test.ts"))
      .map((name) => readFileSync(join(folder, name), "utf8")).join("\n")
    const namedIn = (method: string) =>
      new Set([...tests.matchAll(new RegExp(`prometheus\\.${method}\\(([^)]*)\\)`, "g"))]
        .flatMap(([, list = ""]) => [...list.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name)))
    for (const names of [namedIn("fires"), namedIn("clears")]) assert.sameMembers([...names], namesOf(alerts))
  })
})

describe("the runbooks", () => {
  it("name only pages of the console that exist", () => {
    const paths: ReadonlySet<string> = new Set(consolePaths)
    const wrong = pages.flatMap((name) =>
      [...read(`docs/runbooks/${name}.md`).matchAll(/\(`(\/[\w-]*)(?:\?[\w=]+)?`\)/g)]
        .flatMap(([, path = ""]) => paths.has(path) ? [] : [`${name}: ${path}`])
    )
    assert.deepStrictEqual(wrong, [])
  })
})
