/**
 * What people use today beside Rollcall, each alone with the same worlds and the same faulty API of the simulation, judged
 * by one judge.
 *
 * `node bench/Fidelity.ts [worlds] [from seed] [--report]`, 200 worlds unless told otherwise, from a random seed, which is printed;
 * `--report` writes the section "Beside the others" of docs/fidelity.md.
 */
import { parseArgs } from "node:util"
import { planOf } from "../test/simulation/plan/PlanGenerator.ts"
import { writeSection } from "../test/simulation/runner/ReportPage.ts"
import { randomFirstSeed } from "../test/simulation/runner/WorkerPool.ts"
import { ideal, polling, rollcall, runWorld } from "./fidelity/Contenders.ts"
import { emptyScore, judge, type Score } from "./fidelity/Judge.ts"
import { pollers } from "./fidelity/Pollers.ts"
import { table } from "./Table.ts"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { report: { type: "boolean", default: false } }
})
const [worlds = 200, from = randomFirstSeed()] = positionals.map(Number)
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
Of its ${ours.missedDeletes} missed deletes, ${ours.missedDeletesInEmptyLists} are of lists in which nothing is left.`
const seconds = ((Date.now() - startedAt) / 1000).toFixed(0)
console.log(`${worlds} worlds from seed ${from}, ${seconds} s\n\n${result}\n\n${reasons}`)

const reading =
  `Everybody reads through a client that tries again what may pass, nobody is killed, and the ideal reader looks at \
everything once in an interval. *Lost*: a state that lasted an interval and was never told. *Wrong at the end*: after two \
of the world's days of peace. *Ghost*: told and never true since what was told before. A delay runs from the moment a change can \
be seen. Rollcall's waves of changes wait for somebody who comes by once in a sweep interval; what is gone from a list that ran empty \
stays pending, for an empty list is also what a broken API shows.

${reasons} *Held*, *pending*: it was seen and waited, for somebody to decide, or for the end of its reading, a confirm or a \
re-read, until another state took its place: nothing that was seen is dropped, but only the newest is told. *Hidden by a \
fault*: never handed out in a page that counts, while requests of its list failed or were answered wrongly. *For a sweep*: \
not announced to polls, or later than the margin. *Mixed*: true but for properties left as they were told before, as Rollcall \
does while a change of scope is held; such a mixture may look like an older state. *Older copy*: the API showed it again, with \
nothing that tells it from the record having gone back.`
if (values.report) {
  writeSection(
    "docs/fidelity.md",
    "Beside the others",
    `\`node bench/Fidelity.ts ${worlds} ${from} --report\`, ${seconds} s.\n\n${result}\n\n${reading}`
  )
}
