/** Runs one contender as a process and returns what it cost, as values `<name>.records`, `.seconds`, `.cpuSeconds`, `.peakMegabytes`. */
import type { RunningOrigin } from "../origin/RunningOrigin.ts"
import { type Line, Process } from "../Process.ts"
import type { Run } from "../Section.ts"
import { type Folder, Service, settingsFor } from "../Service.ts"

/** Seconds from the first request to the line. */
const secondsUntil = async (origin: RunningOrigin, line: Pick<Line, "at">): Promise<number> =>
  (line.at - (await origin.counts()).firstAt) / 1000

/** A program that ends by itself and prints its cost. */
const runToEnd = async (script: string, origin: RunningOrigin, args: ReadonlyArray<string>): Promise<Run> => {
  await origin.resetCounts()
  await using program = new Process(script, [origin.url, ...args], "stdout")
  const line = await program.line("{")
  const values: Run = JSON.parse(line.text)
  return { ...values, records: (await origin.counts()).records, seconds: await secondsUntil(origin, line) }
}

/** `fetch` and `JSON.parse` of all pages. */
export const readOnly = (origin: RunningOrigin): Promise<Run> => runToEnd("bench/contenders/Read.ts", origin, [])

export interface ScriptPlaces {
  readonly brokers: string
  readonly topic: string
  /** A SQLite file, or the URL of a PostgreSQL database. */
  readonly store: string
}

export const runScript = (origin: RunningOrigin, { brokers, store, topic }: ScriptPlaces): Promise<Run> =>
  runToEnd("bench/contenders/Script.ts", origin, [brokers, topic, store])

/** The cost of the service from its start to this line. */
export const costUntil = async (origin: RunningOrigin, { process }: Service, line: Line): Promise<Run> => ({
  records: (await origin.counts()).records,
  seconds: await secondsUntil(origin, line),
  cpuSeconds: line.cpuSeconds,
  peakMegabytes: process.peakMegabytes
})

/** The first read of a service without Kafka. */
export const readWithoutKafka = async (
  origin: RunningOrigin,
  folder: Folder
): Promise<Run> => {
  await origin.resetCounts()
  await using service = await Service.start(settingsFor(folder, origin.url))
  return await costUntil(origin, service, await service.logged("backfill complete"))
}
