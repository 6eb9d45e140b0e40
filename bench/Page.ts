/** Writes `docs/benchmarks.md` from the results of all sections. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Result, Results } from "./Results.ts"
import type { Goal, Section } from "./Section.ts"
import { formatted, medianOf, per100k, table, type Value, valueOf } from "./Table.ts"

const introduction = `# Benchmarks

\`npm run bench\` measures what the service costs and writes this page. \`npm run bench -- --only first,unchanged --records 50000 --runs 3\`
measures some sections; the others keep their results.

**Read the ratios**, and processor time rather than rates: on a shared machine, times vary by a factor of two between runs, processor time by a
fifth. A section measures the service and its contenders in turn, with the same servers and load. Values are medians over the runs; a ratio is
computed within each run. Processor time and peak memory are those of the whole process, from its start, without the servers of the API, Kafka
and PostgreSQL, which share the cores.

The *script* (\`bench/contenders/Script.ts\`) is what an engineer writes in an afternoon: it compares each record with the JSON of the last time
and sends the differences to Kafka. It loses changes, and does not notice most deletes.
`

const sectionLink = ({ title }: Section): string =>
  `[${title}](#${title.toLowerCase().replace(/[^a-z0-9 -]/g, "").replaceAll(" ", "-")})`

interface MeasuredSection {
  readonly section: Section
  readonly result: Result
}

interface GoalResult {
  readonly section: Section
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
      return { section, goal, now, limit, reached: "atMost" in goal.goal ? now <= limit : now >= limit }
    })
  )

const withUnit = ({ digits, unit }: Goal, value: number) =>
  Number.isNaN(value) ? "–" : `${formatted(value, digits)} ${unit}`.trim()

const goalRow = ({ goal, limit, now, reached, section }: GoalResult) => [
  `${goal.name} (${sectionLink(section)})`,
  withUnit(goal, goal.before),
  withUnit(goal, now),
  `${"atMost" in goal.goal ? "≤" : "≥"} ${withUnit(goal, limit)}`,
  Number.isNaN(now) ? "–" : reached ? "yes" : "no"
]

const goalsText = (measured: ReadonlyArray<MeasuredSection>): string => {
  const results = goalResults(measured)
  const explained = results.flatMap(({ goal: { name, shortfall }, now, reached }) =>
    reached || Number.isNaN(now) || shortfall === undefined ? [] : [`- **${name}**: ${shortfall}`]
  )
  return [
    "## Goals",
    table(["", "before", "now", "goal", "reached"], results.map(goalRow)),
    "*Before*: the values with which the goals were set.",
    ...(explained.length === 0 ? [] : [`Why goals are not reached:\n\n${explained.join("\n")}`])
  ].join("\n\n") + "\n"
}

/** The processor time as an amount that a user pays. */
const billText = (results: Results): string => {
  const hours = (section: string, value: Value) =>
    formatted((10 * medianOf(results[section]?.runs ?? [], value)) / 3600, 2)
  const share = medianOf(results["streams"]?.runs ?? [], valueOf("corePercent"))
  return [
    "## The bill",
    `A vCPU costs about 0.04 $ an hour in a public cloud; \`h\` are hours of one. To read a million applications of 2.4 KB for the first time and
publish them to Kafka takes ${hours("first", per100k("service"))} h, or ${
      hours("first", per100k("candidates"))
    } h with their candidates. A sweep of a million unchanged ones takes ${
      hours("unchanged", per100k("service"))
    } h. 3,300 streams in which nothing changes, at one poll a minute, take ${
      formatted(share, 0)
    } % of a vCPU all the time. A request to the API may cost more: a sweep of
a million records is 4,000 requests.`
  ].join("\n\n") + "\n"
}

const sectionText = (section: Section, result: Result): string => {
  const { at, command, commit, load, machine, runs } = result
  const times = `${runs.length} ${runs.length === 1 ? "run" : "runs"}`
  return [
    `## ${section.title}`,
    `\`${command}\``,
    section.table(runs),
    section.explanation.trim(),
    `Measured at ${at}, commit ${commit}, ${times}, load average ${load[0]} to ${load[1]}, ${machine}.`
  ].join("\n\n") + "\n"
}

export const pageOf = (sections: ReadonlyArray<Section>, results: Results): string => {
  const measured = sections.flatMap((section) => {
    const result = results[section.name]
    return result === undefined || section.table(result.runs) === "" ? [] : [{ section, result }]
  })
  return [
    introduction,
    goalsText(measured),
    billText(results),
    ...measured.map(({ result, section }) => sectionText(section, result))
  ].join("\n")
}

export const writePage = (folder: string, sections: ReadonlyArray<Section>, results: Results): void =>
  writeFileSync(join(folder, "benchmarks.md"), pageOf(sections, results))
