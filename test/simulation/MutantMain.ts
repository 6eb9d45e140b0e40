/**
 * `npm run mutants -- --worlds 500`: removes one defense after the other and reports in how many worlds the oracle notices. Exit code 1 if it
 * never notices one of them.
 */
import { availableParallelism } from "node:os"
import { switchFlag, withFallback } from "../../src/cli/terminal/Flags.ts"
import * as CommandLine from "../support/CommandLine.ts"
import { checkMutants, mutants } from "./mutants/Mutants.ts"
import { runWorlds } from "./runner/WorkerPool.ts"

const values = await CommandLine.read({
  command: "npm run mutants --",
  about:
    "Removes one defense after the other, and reports in how many worlds the oracle notices. Exit code 1 if it never notices one of them.",
  options: {
    worlds: withFallback(CommandLine.whole("worlds"), "how many worlds for each defense", 500),
    from: withFallback(CommandLine.whole("from", 0), "seed of the first world", 1),
    until: CommandLine.optional(CommandLine.whole("until"), "stop running a mutant once it was noticed this often"),
    only: CommandLine.optional(
      CommandLine.knownNames("only", mutants.map(({ name }) => name)),
      "only these mutants"
    ),
    processes: withFallback(CommandLine.whole("processes"), "processes that run worlds", availableParallelism()),
    json: switchFlag("json", "print the results as JSON, one line for each mutant")
  }
})

checkMutants()
const { from, only, processes, until = Number.POSITIVE_INFINITY } = values
let missed = 0
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
  if (values.json) console.log(JSON.stringify({ mutant: name, without, worlds, caught, first, by }))
  else {
    console.log(
      `${caught === 0 ? "MISSED" : "caught"}  ${name.padEnd(22)} in ${String(caught).padStart(4)} of ${
        String(worlds).padStart(4)
      } worlds, by ${by.join(" ") || "nothing"}${first === null ? "" : `, first in ${first}`}`
    )
  }
}
process.exitCode = missed === 0 ? 0 : 1
