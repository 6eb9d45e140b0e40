/** Publishing an existing log to Kafka. */
import { existsSync } from "node:fs"
import { copyFile } from "node:fs/promises"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { drivers } from "../../src/publish/kafka/driver/Driver.ts"
import { readWithoutKafka } from "../contenders/Contenders.ts"
import type { Kafka } from "../Kafka.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { printProfile } from "../Profile.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { Folder, kafkaSettings, Service, settingsFor } from "../Service.ts"
import { cpuColumn, named, rateColumn, rowsTable } from "../Table.ts"
import { untilPublished } from "./Reading.ts"

/** Events that the relay publishes before the measurement: it then has its driver, its topics and its first transaction. */
const warmUp = (records: number): number => Math.min(500, Math.floor(records / 2))

/** A log in a folder of its own, which ends at `position` until `continues` is called. */
const logUpTo = async (file: string, position: number) => {
  const folder = await Folder.make()
  const copy = join(folder.path, "rollcall.db")
  for (const end of ["", "-wal"]) {
    if (existsSync(`${file}${end}`)) await copyFile(`${file}${end}`, `${copy}${end}`)
  }
  const moveEnd = (position: number): void => {
    const database = new DatabaseSync(copy, { timeout: 5000 })
    const chain = "(SELECT chain FROM events WHERE position = ?)"
    database.prepare(`UPDATE log_counter SET position = ?, chain = ${chain}`).run(position, position)
    database.close()
  }
  moveEnd(position)
  return { folder, continues: moveEnd, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

/** The service publishes the rest of a log whose first events it has published. */
const drain = async (
  file: string,
  url: string,
  driver: string,
  kafka: Kafka,
  records: number,
  profiles: string | null = null
): Promise<Run> => {
  const published = warmUp(records)
  await using log = await logUpTo(file, published)
  const topic = await kafka.topic()
  const settings = {
    ...settingsFor(log.folder, url),
    ...kafkaSettings(kafka, topic),
    ROLLCALL_KAFKA_DRIVER: driver
  }
  await using service = await Service.start(settings, profiles)
  await untilPublished(service, published)
  const size = await kafka.size(topic)
  const before = service.process.cpuSeconds
  log.continues(records)
  // the relay of another process notices that within a second
  await kafka.untilSize(topic, size + 1)
  const startedAt = Date.now()
  await untilPublished(service, records)
  return {
    records: records - published,
    seconds: Math.max(1, Date.now() - startedAt) / 1000,
    cpuSeconds: service.process.cpuSeconds - before
  }
}

const measure = async ({ kafka: start, profile, records = 50_000, runs = 3 }: Options) => {
  const kafka = await start()
  await using origin = await RunningOrigin.start(records)
  await using folder = await Folder.make()
  await readWithoutKafka(origin, folder)
  const file = join(folder.path, "rollcall.db")
  const measured = await repeat(runs, async () => {
    let values: Run = {}
    for (const driver of drivers) {
      values = { ...values, ...named(driver, await drain(file, origin.url, driver, kafka, records)) }
    }
    await kafka.deleteTopics()
    return values
  })
  for (const driver of profile ? drivers : []) {
    const path = join(folder.path, driver)
    await drain(file, origin.url, driver, kafka, records, path)
    printProfile(path, `the relay, ${driver}`)
  }
  return { relay: measured }
}

export const relay: Section = {
  name: "relay",
  title: "Relay",
  measure,
  table: (runs) =>
    rowsTable(runs, "", { kafkajs: "kafkajs", platformatic: "platformatic" }, [rateColumn("messages"), cpuColumn]),
  explanation: "The service publishes a full log with each driver, and reads nothing meanwhile. Starts do not count."
}
