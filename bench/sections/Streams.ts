/** The cost of many quiet streams: a start, and polls without changes once a minute. */
import * as Effect from "effect/Effect"
import { setTimeout } from "node:timers/promises"
import { incrementalModels } from "../../src/api/Lists.ts"
import { say } from "../../test/integration/postgres/Server.ts"
import { Process } from "../Process.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { Folder, settingsFor } from "../Service.ts"
import { formatted, goal, medianOf, table, valueOf } from "../Table.ts"

const recordsOfEach = 5
const secondsSince = (at: number) => (Date.now() - at) / 1000

/** Transactions of the database so far. */
const transactionsOf = async (url: string): Promise<number> => {
  const query = "SELECT xact_commit::integer AS commits FROM pg_stat_database WHERE datname = current_database()"
  return Number((await Effect.runPromise(say(url, query))).rows[0]?.["commits"])
}

/** A first start reads all streams; the second one is measured, and then the polls of some time. `postgres`: null for SQLite. */
const measureOnce = async (postgres: string | null, integrations: number, intervalSeconds: number): Promise<Run> => {
  await using folder = await Folder.make()
  await using lists = new Process("bench/ListServer.ts", [String(recordsOfEach)], "stdout")
  const { text: url } = await lists.line("http")
  const settings = {
    ...settingsFor(postgres ?? folder, url),
    ROLLCALL_INTEGRATIONS: Array.from({ length: integrations }, (_, index) => `bench:${index}`).join(),
    ROLLCALL_MODELS: incrementalModels.join(),
    ROLLCALL_INTERVAL: `${intervalSeconds} seconds`
  }
  const streams = integrations * incrementalModels.length
  const start = () => new Process("bin/rollcall.js", ["start"], "stderr", settings)
  /** How many streams were polled, and how often, since the counts were last reset. */
  const polled = async (query = ""): Promise<{ readonly streams: number; readonly polls: number }> =>
    (await (await fetch(new URL(`/polled${query}`, url))).json()) as { streams: number; polls: number }
  const untilPolled = async () => {
    while ((await polled()).streams < streams) await setTimeout(100)
  }
  {
    await using _first = start()
    await untilPolled()
  }
  await polled("?reset")
  // then all streams are due
  await setTimeout(1.2 * intervalSeconds * 1000)

  await using process = start()
  const started = await process.line(`"started"`)
  await untilPolled()
  const afterStart = {
    streams,
    answersSeconds: (started.at - process.startedAt) / 1000,
    polledSeconds: secondsSince(process.startedAt),
    startCpuSeconds: process.cpuSeconds
  }
  // the polls of the start come again together once; after this time they are spread
  await setTimeout(intervalSeconds * 500)
  await polled("?reset")
  const transactions = async () => postgres === null ? 0 : await transactionsOf(postgres)
  const before = { at: Date.now(), cpu: process.cpuSeconds, transactions: await transactions() }
  await setTimeout(intervalSeconds * 2000)
  const [seconds, cpu, { polls }] = [secondsSince(before.at), process.cpuSeconds - before.cpu, await polled()]
  return {
    ...afterStart,
    corePercent: (100 * cpu) / seconds,
    cpuMillisPerPoll: (1000 * cpu) / polls,
    ...postgres === null ? {} : { transactionsPerPoll: ((await transactions()) - before.transactions) / polls },
    peakMegabytes: process.peakMegabytes
  }
}

/** `records` is the number of streams. A few of them are polled more often than once a minute, so that a test is short. */
const measureOn = (store: "sqlite" | "postgres", name: string) => async (options: Options) => {
  const { records = 3300, runs = 1 } = options
  const integrations = Math.ceil(records / incrementalModels.length)
  const intervalSeconds = Math.max(1, Math.min(60, Math.round(records / 55)))
  const measured = await repeat(runs, async () => {
    const database = store === "postgres" ? await (await options.postgres()).database() : null
    return measureOnce(database, integrations, intervalSeconds)
  })
  return { [name]: measured }
}

const rows: ReadonlyArray<readonly [title: string, name: string, digits: number]> = [
  ["HTTP answers after, s", "answersSeconds", 2],
  ["all streams are polled after, s", "polledSeconds", 2],
  ["CPU, % of a core", "corePercent", 1],
  ["CPU per poll, ms", "cpuMillisPerPoll", 2],
  ["PostgreSQL transactions per poll", "transactionsPerPoll", 1],
  ["peak memory, MB", "peakMegabytes", 0]
]

const show = (runs: ReadonlyArray<Run>): string =>
  table(
    ["", ""],
    rows.filter(([, name]) => runs.some((run) => name in run)).map(([title, name, digits]) => [
      title,
      formatted(medianOf(runs, valueOf(name)), digits)
    ])
  )

const perPoll = "A poll without changes costs 1.2 ms in many small steps; fewer polls of quiet streams help."
const memory = "3,300 streams keep 130 MB in use; V8 lets the heap grow to four times that."

export const streams: Section = {
  name: "streams",
  title: "Many streams",
  measure: measureOn("sqlite", "streams"),
  goals: [
    goal("3,300 idle streams, CPU", valueOf("corePercent"), { atMost: 6 }, "%", perPoll),
    goal("3,300 idle streams, peak memory", valueOf("peakMegabytes"), { atMost: 350 }, "MB", memory)
  ],
  table: show,
  explanation: `
3,300 streams of ${recordsOfEach} records on a SQLite file, polled once a minute; nothing changes. The start polls all of them; the processor time is that of two
further polls of each.`
}

export const streamsOnPostgres: Section = {
  name: "streams-postgres",
  title: "Many streams on PostgreSQL",
  measure: measureOn("postgres", "streams-postgres"),
  table: show,
  explanation: "The same on a PostgreSQL server that waits for the disk at each commit."
}
