/** Runs all benchmarks with few records, so that they keep working. Their numbers mean nothing here. */
import { afterAll, assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { sections } from "../../../bench/Sections.ts"
import * as Broker from "../kafka/Broker.ts"
import * as Server from "../postgres/Server.ts"

const main = join(import.meta.dirname, "../../../bench/Main.ts")
const missing = Broker.missing ?? Server.ownMissing
const folder = mkdtempSync(join(tmpdir(), "rollcall-bench-"))
afterAll(() => rmSync(folder, { recursive: true }))

const bench = (only: ReadonlyArray<string>, ...args: ReadonlyArray<string>) =>
  promisify(execFile)(
    process.execPath,
    [main, "--output", folder, "--only", only.join(), "--records", "160", "--runs", "1", ...args],
    { timeout: 1_100_000 }
  )
const results = () => JSON.parse(readFileSync(join(folder, "benchmarks.json"), "utf8"))

describe.skipIf(missing !== null)(`bench${missing === null ? "" : `: ${missing}`}`, () => {
  const groups = [...Map.groupBy(sections, ({ measure }) => measure).values()].map((group) => ({
    group,
    names: group.map(({ name }) => name)
  }))

  it.each(groups)("$names are measured, and have a value for each goal", async ({ group, names }) => {
    await bench(names)
    for (const { goals = [], name } of group) {
      for (const goal of goals) assert.isAbove(goal.value(results()[name].runs), 0, goal.name)
    }
  })

  it("a section that is not measured keeps its results, and the page has all sections", async () => {
    const before = results()
    await bench(["million"])
    const after = results()
    assert.deepStrictEqual({ ...after, million: null }, { ...before, million: null })
    const page = readFileSync(join(folder, "benchmarks.md"), "utf8")
    assert.deepStrictEqual(page.match(/(?<=^## ).*$/gm), [
      "Goals",
      "The bill",
      ...sections.map(({ title }) => title)
    ])
  })
})
