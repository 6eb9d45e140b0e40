/**
 * Compares Rollcall with common ways of polling: each reads the same worlds through the same faulty API of the simulation, alone, and
 * the same judge scores them.
 *
 * `node bench/Fidelity.ts [worlds] [from seed]`, default 200 worlds from a random seed, which is printed.
 */
import * as Argument from "effect/cli/Argument"
import { planOf } from "../test/simulation/plan/PlanGenerator.ts"
import { randomFirstSeed } from "../test/simulation/runner/WorkerPool.ts"
import * as CommandLine from "../test/support/CommandLine.ts"
import { ideal, polling, rollcall, runWorld } from "./fidelity/Contenders.ts"
import { emptyScore, judge, type Score } from "./fidelity/Judge.ts"
import { pollers } from "./fidelity/Pollers.ts"
import { table } from "./Table.ts"

const { from, worlds } = await CommandLine.read({
  command: "node bench/Fidelity.ts",
  about: "Compares Rollcall with common ways of polling in simulated worlds.",
  options: {
    worlds: CommandLine.wholeArgument("worlds").pipe(
      Argument.withDescription("how many worlds (default: 200)"),
      Argument.withDefault(200)
    ),
    from: CommandLine.wholeArgument("first-seed").pipe(
      Argument.withDescription("seed of the first world (default: random)"),
      Argument.withDefault(randomFirstSeed())
    )
  }
})
console.error(`${worlds} worlds from seed ${from}`)

const contenders = [ideal, rollcall, ...pollers.map(polling)]
const scores = contenders.map(emptyScore)
const startedAt = Date.now()
for (let seed = from; seed < from + worlds; seed++) {
  const plan = planOf(seed)
  contenders.forEach((contender, i) => judge(scores[i]!, runWorld(plan, contender)))
}

const columns: Readonly<Record<string, (score: Score) => string>> = {
  "lost changes": ({ lost, states }) => `${lost} (${((100 * lost) / states).toFixed(1)} %)`,
  "wrong at the end": ({ wrong }) => String(wrong),
  "missed deletes": ({ missedDeletes }) => String(missedDeletes),
  "false deletes": ({ falseDeletes }) => String(falseDeletes),
  ghosts: ({ ghosts }) => String(ghosts),
  "created again": ({ recreated }) => String(recreated),
  "idle updates": ({ emptyUpdates }) => String(emptyUpdates),
  "delay p50, min": ({ delays }) => delay(delays, 0.5),
  "p95, min": ({ delays }) => delay(delays, 0.95),
  "requests a world": ({ requests }) => (requests / worlds).toFixed(0)
}
const delay = (delays: ReadonlyArray<number>, part: number): string => {
  const sorted = [...delays].sort((a, b) => a - b)
  return ((sorted[Math.floor(part * sorted.length)] ?? 0) / 60_000).toFixed(1)
}

const result = table(
  ["", ...Object.keys(columns)],
  contenders.map(({ name }, i) => [name, ...Object.values(columns).map((column) => column(scores[i]!))])
)
const of = (reasons: Readonly<Record<string, number>>): string =>
  Object.entries(reasons).filter(([, amount]) => amount > 0).map(([reason, amount]) => `${reason} ${amount}`).join(", ")
const ours = scores[contenders.indexOf(rollcall)]!
const reasons = `Of Rollcall's ${ours.lost} lost changes: ${of(ours.lossCounts)}. Of its ${ours.ghosts} ghosts: ${
  of(ours.ghostCounts)
}. \
Of its ${ours.missedDeletes} missed deletes, ${ours.missedDeletesInEmptyLists} are in lists that are empty.`
const seconds = ((Date.now() - startedAt) / 1000).toFixed(0)
console.log(`${worlds} worlds from seed ${from}, ${seconds} s\n\n${result}\n\n${reasons}`)
