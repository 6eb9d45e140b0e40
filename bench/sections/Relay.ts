/** Publishing an existing log to Kafka, compared with a bare producer. */
import { existsSync } from "node:fs"
import { copyFile } from "node:fs/promises"
import { join } from "node:path"
import { drivers } from "../../src/publish/kafka/driver/Driver.ts"
import { readWithoutKafka } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { runProgram } from "../programs/Programs.ts"
import type { Options, Run, Section } from "../Section.ts"
import { Folder, Service, settingsFor } from "../Service.ts"
import {
  cpuColumn,
  cpuRatioColumn,
  medianOf,
  named,
  rateColumn,
  rateRatio,
  rateRatioColumn,
  rowsTable
} from "../Table.ts"
import { untilPublished } from "./Reading.ts"

/** The service publishes the log of a folder. */
const drain = async (
  folder: Folder,
  url: string,
  driver: string,
  brokers: string,
  topic: string,
  records: number
) => {
  await using service = await Service.start({
    ...settingsFor(folder, url),
    KAFKA_BROKERS: brokers,
    ROLLCALL_KAFKA_DRIVER: driver,
    ROLLCALL_TOPIC: topic
  })
  const startedAt = Date.now()
  const before = service.process.cpuSeconds
  await untilPublished(service, records)
  return {
    records,
    seconds: (Date.now() - startedAt) / 1000,
    cpuSeconds: service.process.cpuSeconds - before
  }
}

const measure = async ({ kafka: start, records = 50_000, runs = 3 }: Options) => {
  const kafka = await start()
  await using origin = await RunningOrigin.start(records)
  const measured: Array<Run> = []
  for (let run = 0; run < runs; run++) {
    await using folder = await Folder.make()
    await readWithoutKafka(origin, folder)
    const file = join(folder.path, "rollcall.db")
    const results: Array<Run> = []
    for (const driver of drivers) {
      results.push(
        named(`bare_${driver}`, await runProgram("Produce", kafka.brokers, await kafka.topic(), file, driver))
      )
    }
    for (const driver of drivers) {
      await using copy = await Folder.make()
      for (const end of ["", "-wal"]) {
        if (existsSync(`${file}${end}`)) await copyFile(`${file}${end}`, join(copy.path, `rollcall.db${end}`))
      }
      results.push(
        named(`relay_${driver}`, await drain(copy, origin.url, driver, kafka.brokers, await kafka.topic(), records))
      )
    }
    measured.push(Object.assign({}, ...results) as Run)
    await kafka.deleteTopics()
  }
  return { relay: { runs: measured } }
}

export const relay: Section = {
  name: "relay",
  title: "Relay",
  measure,
  goals: [{
    name: "relay, messages/s relative to a bare transactional producer, both with the faster driver",
    before: 0.97,
    goal: { atLeast: 0.8 },
    unit: "×",
    digits: 2,
    value: (runs) => medianOf(runs, rateRatio("relay_platformatic", "bare_platformatic"))
  }],
  table: (runs) =>
    rowsTable(runs, "", {
      bare_kafkajs: "a bare producer (kafkajs)",
      bare_platformatic: "a bare producer (@platformatic/kafka)",
      relay_kafkajs: "the relay, kafkajs",
      relay_platformatic: "the relay, platformatic"
    }, [
      rateColumn("messages"),
      rateRatioColumn("bare_platformatic", "the faster producer"),
      cpuColumn,
      cpuRatioColumn("bare_platformatic", "the faster producer")
    ]),
  explanation: `
The service drains a log that a first read filled, and reads nothing meanwhile. The bare producers have the same messages in memory, already
encoded, and send them in transactions of the same 500, with the encoding of their library. The start of the processes does not count. The
relay starts a moment before HTTP answers, so its first transactions may be missing.`
}
