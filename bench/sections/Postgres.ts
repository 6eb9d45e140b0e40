/** The first read on PostgreSQL, compared with the script on PostgreSQL, and the round trips of the transaction of a page. */
import { setTimeout } from "node:timers/promises"
import { runScript } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { PostgresProxy, type Transaction } from "../PostgresProxy.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { Service, type Settings, settingsFor, withCandidates } from "../Service.ts"
import {
  column,
  cpuColumn,
  cpuRatio,
  cpuRatioColumn,
  goal,
  median,
  named,
  rateColumn,
  rateRatioColumn,
  rowsTable,
  valueOf
} from "../Table.ts"
import { readToKafka } from "./Reading.ts"

const pageSize = 250
const delayMillis = 50
const variants: Readonly<Record<string, Settings>> = { service: {}, candidates: withCandidates }

/** Only the transaction of a page sends as much as the ids of its records. */
const isPage = ({ bytes }: Transaction): boolean => bytes > 6_000

/** Pages of new, unchanged and changed records, the last ones with the delay. */
const measurePages = async (origin: RunningOrigin, database: string, settings: Settings): Promise<Run> => {
  await origin.reset()
  await using proxy = await PostgresProxy.start(database)
  await using service = await Service.start({ ...settingsFor(proxy.url, origin.url), ...settings })
  const nextPages = () => {
    const pages = proxy.transactions.splice(0).filter(isPage)
    return {
      roundTrips: median(pages.map(({ roundTrips }) => roundTrips)),
      millis: median(pages.map(({ millis }) => millis))
    }
  }
  await service.logged("backfill complete")
  const created = nextPages()
  await service.sweep()
  const unchanged = nextPages()
  proxy.delayMillis = delayMillis
  const changed = await origin.change(3 * pageSize, "update", 1)
  await service.command("poll")
  while (proxy.transactions.filter(isPage).length < Math.ceil(changed / pageSize)) await setTimeout(20)
  return { created: created.roundTrips, unchanged: unchanged.roundTrips, millis: nextPages().millis }
}

const measure = async (options: Options) => {
  const { records = 50_000, runs = 3 } = options
  const [kafka, postgres] = [await options.kafka(), await options.postgres()]
  await using origin = await RunningOrigin.start(records)
  await using smallOrigin = await RunningOrigin.start(Math.min(records, 20 * pageSize))
  const measureOnce = async () => {
    const places = { brokers: kafka.brokers, topic: await kafka.topic(), store: await postgres.database() }
    let values = named("script", await runScript(origin, places, "full"))
    for (const [name, settings] of Object.entries(variants)) {
      const database = await postgres.database()
      const read = await readToKafka(origin, kafka, records, { ...settingsFor(database, origin.url), ...settings })
      const pages = await measurePages(smallOrigin, await postgres.database(), settings)
      values = { ...values, ...named(name, { ...read, ...pages }) }
    }
    await kafka.deleteTopics()
    await postgres.dropDatabases()
    return values
  }
  return { postgres: { runs: await repeat(runs, measureOnce) } }
}

export const postgres: Section = {
  name: "postgres",
  title: "First read on PostgreSQL",
  measure,
  goals: [
    goal(
      "first read to Kafka on PostgreSQL, CPU relative to the script on PostgreSQL",
      cpuRatio("service", "script"),
      2.13,
      { atMost: 1.5 },
      "×"
    ),
    goal("PostgreSQL: round trips of a page of new records", valueOf("service.created"), 21, { atMost: 4 }, ""),
    goal("the same with candidates", valueOf("candidates.created"), 34, { atMost: 4 }, ""),
    goal("PostgreSQL: round trips of a page of unchanged records", valueOf("service.unchanged"), 11, { atMost: 3 }, ""),
    goal(`a page of ${pageSize} changed records at ${delayMillis} ms a round trip`, valueOf("service.millis"), 1240, {
      atMost: 300
    }, "ms")
  ],
  table: (runs) =>
    rowsTable(runs, "", { script: "the script", service: "the service", candidates: "the service, with candidates" }, [
      rateColumn("records"),
      rateRatioColumn("script", "script"),
      cpuColumn,
      cpuRatioColumn("script", "script"),
      column("peak memory, MB", "peakMegabytes"),
      column("round trips, new page", "created"),
      column("round trips, unchanged page", "unchanged"),
      column("changed page at 50 ms, ms", "millis")
    ]),
  explanation: `
As in [First read](#first-read), on one PostgreSQL server that waits for the disk at each commit. The script reads and writes its snapshots with
two statements per page. A proxy (\`bench/PostgresProxy.ts\`) counts the round trips of the transaction of a page of ${pageSize},
and delays what the service sends by ${delayMillis} ms while ${pageSize} records of each page are changed.`
}
