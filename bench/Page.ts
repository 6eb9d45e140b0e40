/** Writes `docs/benchmarks.md` from the results of all sections. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Result, Results } from "./Results.ts"
import type { Goal, Profile, Section } from "./Section.ts"
import { formatted, table } from "./Table.ts"

const introduction = `# Benchmarks

\`npm run bench\` measures what the service costs and writes this page. \`npm run bench -- --only first,unchanged --records 50000 --runs 3\`
measures some sections; the others keep their results.

Each section is measured in one run of the command: the service, and what it is compared with, in turn, with the same server, the same
broker and the same load. So read the ratios, and processor time rather than rates: on a shared machine, times vary by a factor of two
between runs, processor time by a fifth. A value is the median over the runs, and a ratio is computed within each run.

CPU time and peak memory are those of the whole process: all of its threads, from its start. The servers of the API, of Kafka and of
PostgreSQL are not counted, but share the cores.

The *script* (\`bench/contenders/Script.ts\`) is a program such as an engineer writes in an afternoon: it reads the list, compares each
record with the JSON of the last time and sends the differences to Kafka. It is faster than a correct program has to be: it loses
changes, and it does not notice most deletes.
`

const sectionLink = ({ title }: Section): string =>
  `[${title}](#${title.toLowerCase().replace(/[^a-z0-9 -]/g, "").replaceAll(" ", "-")})`

const goalRow = (section: Section, { runs }: Result, { before, digits, goal, name, unit, value }: Goal) => {
  const now = value(runs)
  const limit = "atMost" in goal ? goal.atMost : goal.atLeast
  const reached = "atMost" in goal ? now <= limit : now >= limit
  const withUnit = (number: number) => Number.isNaN(number) ? "–" : `${formatted(number, digits)} ${unit}`.trim()
  return [
    `${name} (${sectionLink(section)})`,
    withUnit(before),
    withUnit(now),
    `${"atMost" in goal ? "≤" : "≥"} ${withUnit(limit)}`,
    Number.isNaN(now) ? "–" : reached ? "yes" : "no"
  ]
}

const goalsTable = (measured: ReadonlyArray<{ readonly section: Section; readonly result: Result }>): string => {
  const rows = measured.flatMap(({ result, section }) =>
    (section.goals ?? []).map((goal) => goalRow(section, result, goal))
  )
  return `## Goals\n\n${
    table(["", "before", "now", "goal", "reached"], rows)
  }\n\n*Before*: the values with which the goals were set.\n`
}

const profileTable = ({ groups, title }: Profile): string =>
  table([title, "share of the CPU time"], groups.map(([group, share]) => [group, `${(100 * share).toFixed(0)} %`]))

const sectionText = (section: Section, result: Result): string => {
  const { at, command, commit, load, machine, profiles = [], runs } = result
  const times = `${runs.length} ${runs.length === 1 ? "run" : "runs"}`
  return [
    `## ${section.title}`,
    `\`${command}\``,
    section.table(runs),
    section.explanation.trim(),
    ...profiles.map(profileTable),
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
    goalsTable(measured),
    ...measured.map(({ result, section }) => sectionText(section, result))
  ].join("\n")
}

export const writePage = (folder: string, sections: ReadonlyArray<Section>, results: Results): void =>
  writeFileSync(join(folder, "benchmarks.md"), pageOf(sections, results))
