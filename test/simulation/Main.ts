/**
 * `npm run simulate -- --worlds 20000`: runs worlds and reports violations, each with a command that replays it and a shrunk plan. Without
 * `--from` the first seed is random and printed at the start. Exit code 1 on a violation.
 */
import { spawnSync } from "node:child_process"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { switchFlag, withFallback } from "../../src/cli/terminal/Flags.ts"
import * as CommandLine from "../support/CommandLine.ts"
import { mutants } from "./mutants/Mutants.ts"
import { describe } from "./plan/Plan.ts"
import { planOf } from "./plan/PlanGenerator.ts"
import { shrink, signatureOf } from "./runner/Shrink.ts"
import { Statistics } from "./runner/Statistics.ts"
import { minutes } from "./runner/Trace.ts"
import { randomFirstSeed, runWorlds } from "./runner/WorkerPool.ts"
import { simulate, type Verdict } from "./Simulation.ts"
import { start } from "./WorldRun.ts"

const values = await CommandLine.read({
  command: "npm run simulate --",
  about: "Runs the whole service in simulated worlds with faults, and reports violations. Exit code 1 on a violation.",
  options: {
    worlds: withFallback(CommandLine.whole("worlds"), "how many worlds", 200),
    fleets: switchFlag("fleets", "only worlds in which several processes share the work"),
    from: CommandLine.optional(CommandLine.whole("from", 0), "seed of the first world (default: random)"),
    processes: withFallback(CommandLine.whole("processes"), "processes that run worlds", availableParallelism()),
    seed: CommandLine.optional(
      CommandLine.whole("seed", 0),
      "only the world of this seed; after a violation the shrunk plan"
    ),
    mutant: CommandLine.optional(
      CommandLine.knownName("mutant", mutants.map(({ name }) => name)),
      "without this defense"
    ),
    trace: switchFlag("trace", "with --seed: every response and every commit of the shrunk plan"),
    json: switchFlag("json", "print the result as JSON")
  }
})
const replayOf = (seed: number): string =>
  `npm run simulate -- --seed ${seed}${values.mutant === undefined ? "" : ` --mutant ${values.mutant}`}`

/** Mutants are applied while modules are loaded: this program starts itself again with the hook. */
const startMutated = (): number => {
  const { status } = spawnSync(
    process.execPath,
    ["--import", fileURLToPath(new URL("./mutants/MutantHook.ts", import.meta.url)), ...process.argv.slice(1)],
    { stdio: "inherit", env: { ...process.env, ROLLCALL_MUTANT: values.mutant } }
  )
  return status ?? 1
}

const printViolations = (verdict: Verdict): void => {
  for (const { at, invariant, stream, what } of verdict.violations) {
    console.log(`${minutes(at, start)}  ${invariant}  ${stream}: ${what}`)
  }
}

const replay = (seed: number): number => {
  const plan = planOf(seed)
  const verdict = simulate(plan)
  if (verdict.violations.length === 0) {
    console.log(
      `world ${seed}: no violation (${verdict.requests} requests, ${verdict.events} events)`
    )
    return 0
  }
  const shrunk = shrink(plan)
  console.log(`world ${seed}, ${shrunk.steps.length} of ${plan.steps.length} steps are enough:`)
  console.log(`  ${JSON.stringify(plan.setting)}`)
  for (const step of shrunk.steps) console.log(describe(step))
  console.log("violations of the shrunk plan:")
  printViolations(simulate(shrunk, values.trace ? console.log : undefined))
  console.log(`replay: ${replayOf(seed)}`)
  return 1
}

/** Printed immediately, to stderr: a failure in a long run can be investigated while the run continues. */
const printFailure = ({ seed, violations }: Verdict): void =>
  console.error(`world ${seed}: ${[...new Set(violations.map(signatureOf))].join("; ")}`)

const survey = async (): Promise<number> => {
  const { from = randomFirstSeed(), worlds } = values
  console.error(`${worlds} ${values.fleets ? "fleets" : "worlds"} from seed ${from}`)
  const statistics = new Statistics()
  const quiet = values.json || !process.stdout.isTTY
  let shown = Date.now()
  await runWorlds({
    from,
    worlds,
    wanted: (seed) => !values.fleets || planOf(seed).setting.fleet,
    processes: values.processes,
    mutant: values.mutant,
    onVerdict: (verdict) => {
      statistics.add(verdict)
      if (verdict.violations.length > 0 && values.mutant === undefined) printFailure(verdict)
      if (quiet || Date.now() - shown < 1000) return
      shown = Date.now()
      process.stdout.write(`\r${statistics.worlds} of ${worlds} worlds, ${statistics.failed.length} with violations `)
    }
  })
  if (!quiet) process.stdout.write("\r\x1b[K")
  if (values.json) console.log(JSON.stringify({ from, ...statistics.summary() }))
  else {
    console.log(statistics.table())
    const signatures = new Map<string, Verdict>()
    for (const verdict of statistics.failed) {
      for (const violation of verdict.violations) {
        if (!signatures.has(signatureOf(violation))) signatures.set(signatureOf(violation), verdict)
      }
    }
    for (const [signature, { seed }] of [...signatures].slice(0, 10)) {
      console.log(`violation: ${signature}\n  ${replayOf(seed)}`)
    }
    const first = statistics.failed[0]
    if (first !== undefined && values.mutant === undefined) replay(first.seed)
  }
  return statistics.failed.length === 0 ? 0 : 1
}

if (values.mutant !== undefined && process.env["ROLLCALL_MUTANT"] === undefined) process.exitCode = startMutated()
else if (values.seed !== undefined) process.exitCode = replay(values.seed)
else process.exitCode = await survey()
