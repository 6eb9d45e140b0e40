/**
 * `npm run bench`: measures the sections of `docs/benchmarks.md` one after another and writes the page.
 *
 * Options
 * - `--only <section>,…`: these sections; the others keep their results
 * - `--records <n>`, `--runs <n>`: instead of the defaults of each section
 * - `--no-profile`: do not profile, which takes an additional run of each section that shows where the time goes
 * - `--output <folder>`: where `benchmarks.md` and `benchmarks.json` are, instead of `docs`
 * - `--page`: measure nothing, write the page from the results
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Kafka } from "./Kafka.ts"
import { writePage } from "./Page.ts"
import { Postgres } from "./Postgres.ts"
import { currentCommit, load, machine, readResults, writeResults } from "./Results.ts"
import type { Options, Section } from "./Section.ts"
import { sections } from "./Sections.ts"

const { values } = parseArgs({
  allowNegative: true,
  options: {
    only: { type: "string" },
    records: { type: "string" },
    runs: { type: "string" },
    profile: { type: "boolean", default: true },
    output: { type: "string", default: join(import.meta.dirname, "../docs") },
    page: { type: "boolean", default: false }
  }
})

const fail = (message: string): never => {
  console.error(message)
  process.exit(1)
}

const names = sections.map(({ name }) => name)
const selected = values.page ? [] : values.only?.split(",") ?? names
const unknown = selected.filter((name) => !names.includes(name))
if (unknown.length > 0) fail(`There is no section ${unknown.join(", ")}. The sections are ${names.join(", ")}.`)
const count = (name: "records" | "runs"): number | undefined => {
  const text = values[name]
  if (text === undefined) return undefined
  return /^[1-9]\d*$/.test(text) ? Number(text) : fail(`--${name} needs a number from 1 on, not ${text}.`)
}
const [records, runs] = [count("records"), count("runs")]

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
  profile: values.profile,
  kafka: once(Kafka.start),
  postgres: once(Postgres.start)
}

/** Sections that are measured together. */
const groups = Map.groupBy(sections.filter(({ name }) => selected.includes(name)), ({ measure }) => measure)

const measureGroup = async (group: ReadonlyArray<Section>): Promise<void> => {
  const wanted = new Set(group.map(({ name }) => name))
  console.error(`measuring ${[...wanted].join(", ")}`)
  const before = { at: `${new Date().toISOString().slice(0, 16)}Z`, load: load(), commit: currentCommit() }
  const measured = await group[0]!.measure(options, wanted)
  const results = { ...readResults(values.output) }
  for (const { name } of group) {
    const own = measured[name]
    if (own === undefined) throw new Error(`${name} was not measured`)
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
      ...own
    }
  }
  writeResults(values.output, results)
  writePage(values.output, sections, results)
}

try {
  mkdirSync(values.output, { recursive: true })
  for (const group of groups.values()) await measureGroup(group)
  if (values.page) writePage(values.output, sections, readResults(values.output))
} finally {
  for (const service of started) await (await service)[Symbol.asyncDispose]()
}
