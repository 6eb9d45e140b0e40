/** The first read on PostgreSQL, compared with the script on PostgreSQL. */
import { runScript } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { type Options, repeat, type Section } from "../Section.ts"
import { kafkaSettings, Service, settingsFor } from "../Service.ts"
import {
  column,
  cpuColumn,
  cpuRatio,
  cpuRatioColumn,
  medianOf,
  named,
  rateColumn,
  rateRatioColumn,
  rowsTable
} from "../Table.ts"
import { untilInKafka } from "./Reading.ts"

const measure = async (options: Options) => {
  const { records = 50_000, runs = 3 } = options
  const [kafka, postgres] = [await options.kafka(), await options.postgres()]
  await using origin = await RunningOrigin.start(records)
  const measureOnce = async () => {
    const places = { brokers: kafka.brokers, topic: await kafka.topic(), store: await postgres.database() }
    const script = await runScript(origin, places, "full")
    await origin.resetCounts()
    const topic = await kafka.topic()
    const settings = { ...settingsFor(await postgres.database(), origin.url), ...kafkaSettings(kafka, topic) }
    const service = await Service.start(settings)
    const read = await untilInKafka(origin, service, kafka, topic, records).finally(() => service.process.stop())
    await kafka.deleteTopics()
    await postgres.dropDatabases()
    return { ...named("script", script), ...named("service", read) }
  }
  return { postgres: { runs: await repeat(runs, measureOnce) } }
}

export const postgres: Section = {
  name: "postgres",
  title: "First read on PostgreSQL",
  measure,
  goals: [{
    name: "first read to Kafka on PostgreSQL, CPU relative to the script on PostgreSQL",
    before: NaN,
    goal: { atMost: 1 },
    unit: "×",
    digits: 2,
    value: (runs) => medianOf(runs, cpuRatio("service", "script")),
    shortfall:
      `As on SQLite: more rows for each record, the canonical form, and the relay. Sending the statements of a transaction without waiting for each response was not tried; the driver does not offer it.`
  }],
  table: (runs) =>
    rowsTable(runs, "", { script: "the script", service: "the service" }, [
      rateColumn("records"),
      rateRatioColumn("script", "script"),
      cpuColumn,
      cpuRatioColumn("script", "script"),
      column("peak memory, MB", "peakMegabytes")
    ]),
  explanation: `
As in [First read](#first-read), on one PostgreSQL server that waits for the disk at each commit. The script reads and writes its snapshots with
two statements per page. The processor time of the server does not count.`
}
