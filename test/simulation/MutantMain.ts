/**
 * `npm run mutants -- --worlds 500`: removes one defense after the other and reports in how many worlds the oracle notices. Exit code 1 if it
 * never notices one of them.
 */
import { availableParallelism } from "node:os"
import * as CommandLine from "../support/CommandLine.ts"
import { checkMutants, mutants } from "./mutants/Mutants.ts"
import { readRows, writeSection } from "./runner/ReportPage.ts"
import { runWorlds } from "./runner/WorkerPool.ts"

const { values } = CommandLine.read({
  command: "npm run mutants --",
  about:
    "Removes one defense after the other, and reports in how many worlds the oracle notices. Exit code 1 if it never notices one of them.",
  options: {
    worlds: { type: "number", default: 500, about: "how many worlds for each defense" },
    from: { type: "number", least: 0, default: 1, about: "seed of the first world" },
    until: { type: "number", about: "stop running a mutant once it was noticed this often" },
    only: { type: "names", known: mutants.map(({ name }) => name), about: "only these mutants" },
    processes: { type: "number", default: availableParallelism(), about: "processes that run worlds" },
    report: {
      type: "flag",
      about: 'write the section "Mutants" of docs/fidelity.md; with --only, the rows of the other mutants stay'
    },
    json: { type: "flag", about: "print the results as JSON, one line for each mutant" }
  }
})

checkMutants()
const { from, only, processes, until = Number.POSITIVE_INFINITY } = values
let missed = 0
const page = "docs/fidelity.md"
const rows = new Map(only === undefined ? [] : readRows(page, "Mutants"))
for (const { name, without } of mutants.filter((mutant) => only?.includes(mutant.name) ?? true)) {
  let worlds = 0
  let caught = 0
  let first: number | null = null
  const invariants = new Set<string>()
  await runWorlds({
    from,
    worlds: values.worlds,
    processes,
    mutant: name,
    enough: () => caught >= until,
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
  const limit = values.until === undefined ? "" : ` --until ${until}`
  const command = `\`npm run mutants -- --worlds ${values.worlds} --from ${from}${limit} --report\``
  const ordered = mutants.flatMap(({ name }) => rows.get(name) ?? [])
  const table = ["| mutant | removed defense | caught in worlds | by |", "| --- | --- | --- | --- |", ...ordered]
  writeSection(page, "Mutants", `${command}\n\n${table.join("\n")}`)
}
process.exitCode = missed === 0 ? 0 : 1
