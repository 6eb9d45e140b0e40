/**
 * `npm run mutants -- --worlds 500 [--until n] [--only name,…] [--processes n] [--report] [--json]`: removes one defense after the other
 * and reports in how many worlds the oracle notices. Exit code 1 if it never notices one of them.
 */
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"
import { checkMutants, mutants } from "./mutants/Mutants.ts"
import { readRows, writeSection } from "./runner/ReportPage.ts"
import { runWorlds } from "./runner/WorkerPool.ts"

const { values } = parseArgs({
  options: {
    worlds: { type: "string", default: "500" },
    from: { type: "string", default: "1" },
    /** Stops running a mutant once it was caught this often. */
    until: { type: "string", default: "Infinity" },
    only: { type: "string" },
    /** Processes; by default one for each core. */
    processes: { type: "string", default: String(availableParallelism()) },
    /** Writes the section "Mutants" of docs/fidelity.md; with `--only`, the rows of the other mutants stay. */
    report: { type: "boolean", default: false },
    json: { type: "boolean", default: false }
  }
})

checkMutants()
const only = values.only?.split(",")
let missed = 0
const page = "docs/fidelity.md"
const rows = new Map(only === undefined ? [] : readRows(page, "Mutants"))
for (const { name, without } of mutants.filter((mutant) => only?.includes(mutant.name) ?? true)) {
  let worlds = 0
  let caught = 0
  let first: number | null = null
  const invariants = new Set<string>()
  await runWorlds({
    from: Number(values.from),
    worlds: Number(values.worlds),
    processes: Number(values.processes),
    mutant: name,
    enough: () => caught >= Number(values.until),
    onVerdict: ({ seed, violations }) => {
      worlds++
      if (violations.length === 0) return
      caught++
      first = Math.min(first ?? seed, seed)
      for (const { invariant } of violations) invariants.add(invariant)
    }
  })
  if (caught === 0) missed++
  const by = [...invariants].sort()
  rows.set(name, `| ${name} | ${without} | ${caught} of ${worlds} | ${by.join(" ")} |`)
  if (values.json) console.log(JSON.stringify({ mutant: name, without, worlds, caught, first, by }))
  else {
    console.log(
      `${caught === 0 ? "MISSED" : "caught"}  ${name.padEnd(22)} in ${String(caught).padStart(4)} of ${
        String(worlds).padStart(4)
      } worlds, by ${by.join(" ") || "nothing"}${first === null ? "" : `, first in ${first}`}`
    )
  }
}
if (values.report) {
  const until = values.until === "Infinity" ? "" : ` --until ${values.until}`
  const command = `\`npm run mutants -- --worlds ${values.worlds} --from ${values.from}${until} --report\``
  const ordered = mutants.flatMap(({ name }) => rows.get(name) ?? [])
  const table = ["| mutant | removed defense | caught in worlds | by |", "| --- | --- | --- | --- |", ...ordered]
  writeSection(page, "Mutants", `${command}\n\n${table.join("\n")}`)
}
process.exitCode = missed === 0 ? 0 : 1
