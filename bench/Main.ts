/**
 * `npm run bench`: measures the sections of `docs/benchmarks.md` one after another and writes the page.
 */
import * as Flag from "effect/cli/Flag"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { switchFlag } from "../src/cli/terminal/Flags.ts"
import * as CommandLine from "../test/support/CommandLine.ts"
import { Kafka } from "./Kafka.ts"
import { writePage } from "./Page.ts"
import { Postgres } from "./Postgres.ts"
import { currentCommit, load, machine, readResults, writeResults } from "./Results.ts"
import type { Options, Section } from "./Section.ts"
import { sections } from "./Sections.ts"

const names = sections.map(({ name }) => name)
const { only, output, page, profile, records, runs } = await CommandLine.read({
  command: "npm run bench --",
  about: "Measures the sections of docs/benchmarks.md one after another, and writes the page.",
  options: {
    only: CommandLine.knownNames("only", names).pipe(
      Flag.withDescription(`only these sections; the others keep their results: ${names.join(", ")}`),
      Flag.withDefault(names)
    ),
    records: CommandLine.optional(
      CommandLine.whole("records"),
      "how many records, instead of the number of each section"
    ),
    runs: CommandLine.optional(CommandLine.whole("runs"), "how many runs, instead of the number of each section"),
    profile: Flag.Boolean("profile").pipe(
      Flag.withDescription("print where the time goes, from a further run of the sections first, unchanged and relay"),
      Flag.withDefault(false)
    ),
    output: Flag.Directory("output").pipe(
      Flag.withDescription("folder of benchmarks.md and benchmarks.json (default: docs)"),
      Flag.withDefault(join(import.meta.dirname, "../docs"))
    ),
    page: switchFlag("page", "measure nothing, write the page from the results")
  }
})
const selected = page ? [] : only

const started: Array<Promise<AsyncDisposable>> = []
/** Starts a service with the first call, and stops it in the end. */
const once = <A extends AsyncDisposable>(start: () => Promise<A>): () => Promise<A> => {
  let running: Promise<A> | null = null
  return () => {
    if (running === null) started.push(running = start())
    return running
  }
}
const options: Options = {
  ...records === undefined ? {} : { records },
  ...runs === undefined ? {} : { runs },
  profile,
  kafka: once(Kafka.start),
  postgres: once(Postgres.start)
}

/** Sections that are measured together. */
const groups = Map.groupBy(sections.filter(({ name }) => selected.includes(name)), ({ measure }) => measure)

const measureGroup = async (group: ReadonlyArray<Section>): Promise<void> => {
  console.error(`measuring ${group.map(({ name }) => name).join(", ")}`)
  const before = { at: `${new Date().toISOString().slice(0, 16)}Z`, load: load(), commit: currentCommit() }
  const measured = await group[0]!.measure(options)
  const results = { ...readResults(output) }
  for (const { name } of group) {
    const found = measured[name]
    if (found === undefined) throw new Error(`${name} was not measured`)
    const settings = [
      ...records === undefined ? [] : [`--records ${records}`],
      ...runs === undefined ? [] : [`--runs ${runs}`]
    ]
    results[name] = {
      at: before.at,
      commit: before.commit,
      load: [before.load, load()],
      machine: machine(),
      command: ["npm run bench --", `--only ${name}`, ...settings].join(" "),
      runs: found
    }
  }
  writeResults(output, results)
  writePage(output, sections, results)
}

try {
  mkdirSync(output, { recursive: true })
  for (const group of groups.values()) await measureGroup(group)
  if (page) writePage(output, sections, readResults(output))
} finally {
  for (const service of started) await (await service)[Symbol.asyncDispose]()
}
