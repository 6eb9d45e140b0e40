/** Writes `docs/benchmarks.md` from the results of all sections. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Result, Results } from "./Results.ts"
import type { Goal, Section } from "./Section.ts"
import { formatted, medianOf, per100k, table, type Value, valueOf } from "./Table.ts"

const introduction = `# Benchmarks

What the service costs, compared with a *script* (\`bench/contenders/Script.ts\`) that an engineer writes in an afternoon: it compares each record
with the JSON of the last time and sends the differences to Kafka. After a crash it sends them again, and it does not notice most deletes.

\`npm run bench\` measures all sections and writes this page; with \`-- --only first,unchanged --runs 3\`, it measures two of them again. Below each
table are the arguments, the date and the commit of its measurement.

Compare processor time and ratios, not rates: on a shared machine, times vary by a factor of two, processor time by a fifth. Values are
medians of the runs. Processor time and peak memory are those of the whole process, without the servers of the API, Kafka and PostgreSQL.
`

interface MeasuredSection {
  readonly section: Section
  readonly result: Result
}

interface GoalResult {
  readonly goal: Goal
  readonly now: number
  readonly limit: number
  readonly reached: boolean
}

const goalResults = (measured: ReadonlyArray<MeasuredSection>): ReadonlyArray<GoalResult> =>
  measured.flatMap(({ result, section }) =>
    (section.goals ?? []).map((goal) => {
      const now = goal.value(result.runs)
      const limit = "atMost" in goal.goal ? goal.goal.atMost : goal.goal.atLeast
      return { goal, now, limit, reached: "atMost" in goal.goal ? now <= limit : now >= limit }
    })
  )

const withUnit = ({ digits, unit }: Goal, value: number) =>
  Number.isNaN(value) ? "–" : `${formatted(value, digits)} ${unit}`.trim()

const goalRow = ({ goal, limit, now, reached }: GoalResult) => [
  goal.name,
  withUnit(goal, now),
  `${"atMost" in goal.goal ? "≤" : "≥"} ${withUnit(goal, limit)}${reached ? " ✓" : ""}`
]

const goalsText = (measured: ReadonlyArray<MeasuredSection>): string => {
  const results = goalResults(measured)
  const reasons = new Set(
    results.flatMap(({ goal: { shortfall }, now, reached }) =>
      reached || Number.isNaN(now) || shortfall === undefined ? [] : [`- ${shortfall}`]
    )
  )
  return [
    "## Goals",
    table(["", "now", "goal (✓: reached)"], results.map(goalRow)),
    ...(reasons.size === 0 ? [] : [`Why the others are not:\n\n${[...reasons].join("\n")}`])
  ].join("\n\n") + "\n"
}

/** The processor time as an amount that a user pays. */
const billText = (results: Results): string => {
  const hours = (section: string, value: Value) =>
    formatted((10 * medianOf(results[section]?.runs ?? [], value)) / 3600, 2)
  const share = medianOf(results["streams"]?.runs ?? [], valueOf("corePercent"))
  return [
    "## The bill",
    `A vCPU costs about 0.04 $ an hour in a public cloud. Applications of 2.4 KB take, in hours of one vCPU:

- first read of a million, published to Kafka: ${hours("first", per100k("service"))} h, with their candidates ${
      hours("first", per100k("candidates"))
    } h
- sweep of a million without changes: ${hours("unchanged", per100k("service"))} h
- 3,300 streams without changes, one poll a minute: ${formatted(share, 0)} % of a vCPU all the time

A request to the API may cost more: a sweep of a million records is 4,000 requests.`
  ].join("\n\n") + "\n"
}

const sectionText = (section: Section, result: Result): string => {
  const { at, command, commit, runs } = result
  return [
    `## ${section.title}`,
    section.table(runs),
    section.explanation.trim(),
    `\`${command.replace("npm run bench -- ", "")}\`, ${at.slice(0, 10)}, ${commit}`
  ].join("\n\n") + "\n"
}

export const pageOf = (sections: ReadonlyArray<Section>, results: Results): string => {
  const measured = sections.flatMap((section) => {
    const result = results[section.name]
    return result === undefined || section.table(result.runs) === "" ? [] : [{ section, result }]
  })
  const machines = new Set(measured.map(({ result }) => result.machine))
  return [
    introduction,
    `Measured on ${[...machines].join("; ")}.\n`,
    goalsText(measured),
    billText(results),
    ...measured.map(({ result, section }) => sectionText(section, result))
  ].join("\n")
}

export const writePage = (folder: string, sections: ReadonlyArray<Section>, results: Results): void =>
  writeFileSync(join(folder, "benchmarks.md"), pageOf(sections, results))
