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
  rowsTable,
  valueOf
} from "../Table.ts"
import { readToKafka, sending } from "./Reading.ts"

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
  const changed = await origin.change(3 * pageSize)
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
    let values = named("script", await runScript(origin, places))
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
  return { postgres: await repeat(runs, measureOnce) }
}

export const postgres: Section = {
  name: "postgres",
  title: "First read on PostgreSQL",
  measure,
  goals: [
    goal("first read on PostgreSQL, CPU / script", cpuRatio("service", "script"), { atMost: 1.5 }, "×", sending),
    goal("round trips, page of new records", valueOf("service.created"), { atMost: 4 }, ""),
    goal("with candidates", valueOf("candidates.created"), { atMost: 4 }, ""),
    goal("round trips, page of unchanged records", valueOf("service.unchanged"), { atMost: 3 }, ""),
    goal(
      `page of ${pageSize} changes, ${delayMillis} ms a round trip`,
      valueOf("service.millis"),
      { atMost: 300 },
      "ms"
    )
  ],
  table: (runs) =>
    rowsTable(runs, "", { script: "script", service: "service", candidates: "with candidates" }, [
      rateColumn("records"),
      cpuColumn,
      cpuRatioColumn,
      column("peak memory, MB", "peakMegabytes"),
      column("round trips, new", "created"),
      column("unchanged", "unchanged"),
      column("changed page, ms", "millis")
    ]),
  explanation: `
As above, on a PostgreSQL server that waits for the disk at each commit. Round trips are those of the transaction of a page of ${pageSize} records. For
the page of changes, a proxy (\`bench/PostgresProxy.ts\`) delays each by ${delayMillis} ms.`
}
