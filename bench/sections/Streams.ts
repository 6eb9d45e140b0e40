/** The cost of many quiet streams: a start, and polls without changes once a minute. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { setTimeout } from "node:timers/promises"
import { incrementalModels } from "../../src/api/Lists.ts"
import { folder, say } from "../../test/integration/postgres/Server.ts"
import { server } from "../Postgres.ts"
import { Process } from "../Process.ts"
import { type Measured, type Options, repeat, type Run, type Section } from "../Section.ts"
import { settingsFor } from "../Service.ts"
import { formatted, goal, median, medianOf, table, valueOf } from "../Table.ts"

const recordsOfEach = 5
const secondsSince = (at: number) => (Date.now() - at) / 1000

/** A service with many streams of a server that has no changes. */
interface ManyStreams {
  readonly streams: number
  /** PostgreSQL's URL; null for SQLite. */
  readonly postgres: string | null
  /** Starts the service; stop it before the next start. */
  readonly start: () => { readonly process: Process; readonly startedAt: number }
  /** How many streams were polled, and how often, since the counts were last reset. */
  readonly polled: (reset: boolean) => Promise<Polled>
}

interface Polled {
  readonly streams: number
  readonly polls: number
}

const makeStreams = (
  store: "sqlite" | "postgres",
  integrations: number,
  intervalSeconds: number
): Effect.Effect<ManyStreams, unknown, Scope.Scope> =>
  Effect.gen(function*() {
    const running: Array<Process> = []
    const launch = (...args: ConstructorParameters<typeof Process>) => {
      const process = new Process(...args)
      running.push(process)
      return process
    }
    const postgres = store === "postgres" ? yield* server : null
    const path = yield* folder
    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all(running.map((process) => process.stop()))))
    const lists = launch("bench/ListServer.ts", [String(recordsOfEach)], "stdout")
    const { text: url } = yield* Effect.promise(() => lists.line("http"))
    const polls = new URL("/polled", url)
    return {
      streams: integrations * incrementalModels.length,
      postgres,
      start: () => ({
        startedAt: Date.now(),
        process: launch("bin/rollcall.js", ["start"], "stderr", {
          ...settingsFor(postgres ?? { path }, url),
          ROLLCALL_INTEGRATIONS: Array.from({ length: integrations }, (_, index) => `bench:${index}`).join(),
          ROLLCALL_MODELS: incrementalModels.join(),
          ROLLCALL_INTERVAL: `${intervalSeconds} seconds`
        })
      }),
      polled: async (reset) => await (await fetch(reset ? `${polls.href}?reset` : polls)).json() as Polled
    }
  })

/**
 * The longest time in which the process does not answer `/health/live` while it answers the request, in ms, as the median of five requests.
 */
const stallOf = async (url: string, path: string): Promise<number> => {
  const stalls: Array<number> = []
  for (let tries = 0; tries < 5; tries++) {
    let longest = 0
    let answered = false
    const response = fetch(`${url}${path}`).then((response) => response.arrayBuffer()).finally(() => answered = true)
    do {
      const at = performance.now()
      await (await fetch(`${url}/health/live`)).arrayBuffer()
      longest = Math.max(longest, performance.now() - at)
    } while (!answered)
    await response
    stalls.push(longest)
    await setTimeout(200)
  }
  return median(stalls)
}

const commitsOf = (url: string | null): Promise<number> =>
  url === null ? Promise.resolve(0) : Effect.runPromise(Effect.map(
    say(url, "SELECT xact_commit::integer AS commits FROM pg_stat_database WHERE datname = 'postgres'"),
    ({ rows }) => Number(rows[0]?.["commits"])
  ))

/** A first start reads all streams; the second one is measured, and then the polls of some time. */
const measureStart = async (
  { polled, postgres, start, streams }: ManyStreams,
  intervalSeconds: number
): Promise<Run> => {
  const untilPolled = async () => {
    while ((await polled(false)).streams < streams) await setTimeout(100)
  }
  const first = start()
  await untilPolled()
  await first.process.stop()
  await polled(true)
  // then all streams are due
  await setTimeout(1.2 * intervalSeconds * 1000)

  const { process, startedAt } = start()
  const started = await process.line(`"started"`)
  const { url }: { url: string } = JSON.parse(started.text)
  await untilPolled()
  const afterStart = {
    streams,
    answersSeconds: (started.at - startedAt) / 1000,
    polledSeconds: secondsSince(startedAt),
    startCpuSeconds: process.cpuSeconds
  }
  // the polls of the start come again together once; after this time they are spread
  await setTimeout(intervalSeconds * 500)
  await polled(true)
  const before = { at: Date.now(), cpu: process.cpuSeconds, commits: await commitsOf(postgres) }
  await setTimeout(intervalSeconds * 2000)
  const [seconds, cpu, { polls }] = [secondsSince(before.at), process.cpuSeconds - before.cpu, await polled(false)]
  return {
    ...afterStart,
    corePercent: (100 * cpu) / seconds,
    cpuMillisPerPoll: (1000 * cpu) / polls,
    transactionsPerPoll: ((await commitsOf(postgres)) - before.commits) / polls,
    peakMegabytes: process.peakMegabytes,
    streamsStallMillis: await stallOf(url, "/v1/streams"),
    metricsStallMillis: await stallOf(url, "/metrics")
  }
}

/** `records` is the number of streams. A few of them are polled more often than once a minute, so that a test is short. */
const measureOn =
  (store: "sqlite" | "postgres", name: string) =>
  async ({ records = 3300, runs = 1 }: Options): Promise<Readonly<Record<string, Measured>>> => {
    const integrations = Math.ceil(records / incrementalModels.length)
    const intervalSeconds = Math.max(1, Math.min(60, Math.round(records / 55)))
    const measureOnce = makeStreams(store, integrations, intervalSeconds).pipe(
      Effect.flatMap((streams) => Effect.promise(() => measureStart(streams, intervalSeconds))),
      Effect.scoped
    )
    return { [name]: { runs: await repeat(runs, () => Effect.runPromise(measureOnce)) } }
  }

const rows: ReadonlyArray<readonly [title: string, name: string, digits: number]> = [
  ["HTTP answers after, s", "answersSeconds", 2],
  ["all streams are polled after, s", "polledSeconds", 2],
  ["CPU, % of a core", "corePercent", 1],
  ["CPU per poll, ms", "cpuMillisPerPoll", 2],
  ["PostgreSQL transactions per poll", "transactionsPerPoll", 1],
  ["peak memory, MB", "peakMegabytes", 0],
  ["wait for `/v1/streams`, ms", "streamsStallMillis", 0],
  ["wait for `/metrics`, ms", "metricsStallMillis", 0]
]

const show = (without: ReadonlyArray<string>) => (runs: ReadonlyArray<Run>): string => {
  const shown = rows.filter(([, name]) => !without.includes(name))
  return table(
    ["", ""],
    shown.map(([title, name, digits]) => [title, formatted(medianOf(runs, valueOf(name)), digits)])
  )
}

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
  table: show(["transactionsPerPoll"]),
  explanation: `
3,300 streams of ${recordsOfEach} records on a SQLite file, polled once a minute; nothing changes. The start polls all of them; the processor time is that of two
further polls of each. The last rows are the longest time in which \`/health/live\` waits while the other request is answered.`
}

export const streamsOnPostgres: Section = {
  name: "streams-postgres",
  title: "Many streams on PostgreSQL",
  measure: measureOn("postgres", "streams-postgres"),
  table: show(["streamsStallMillis", "metricsStallMillis"]),
  explanation: "The same on a PostgreSQL server that waits for the disk at each commit."
}
