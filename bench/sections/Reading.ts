/** The first read and a read without changes, compared with the least work and with the script. */
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { costUntil, readOnly, readWithoutKafka, runScript } from "../contenders/Contenders.ts"
import type { Kafka } from "../Kafka.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { printProfile } from "../Profile.ts"
import type { Options, Run, Section } from "../Section.ts"
import { Folder, kafkaSettings, Service, type Settings, settingsFor, withCandidates } from "../Service.ts"
import {
  column,
  cpuColumn,
  cpuRatio,
  cpuRatioColumn,
  goal,
  named,
  rateColumn,
  rateRatio,
  rowsTable,
  valueOf
} from "../Table.ts"

/** Values of one run by section. */
type Runs = Record<"first" | "unchanged", Run>

/** Waits until the service has published all events up to this position. Each look costs the service processor time. */
export const untilPublished = async (service: Service, position: number): Promise<void> => {
  for (const limit = Date.now() + 600_000; await service.gauge("rollcall_relay_position") < position;) {
    if (Date.now() > limit) throw new Error(`the service has not published ${position} events after 600 s`)
    await setTimeout(250)
  }
}

/** The cost of the service until its topic has all events. The markers of transactions count as messages, so the position of the relay decides. */
const untilInKafka = async (
  origin: RunningOrigin,
  service: Service,
  kafka: Kafka,
  topic: string,
  records: number,
  events = records
): Promise<Run> => {
  await kafka.untilSize(topic, events)
  await untilPublished(service, events)
  const cost = await costUntil(origin, service, { text: "", at: Date.now(), cpuSeconds: service.process.cpuSeconds })
  return { ...cost, records }
}

/** The cost of a first read to Kafka. Each application has a candidate of its own. */
export const readToKafka = async (origin: RunningOrigin, kafka: Kafka, records: number, settings: Settings) => {
  await origin.resetCounts()
  const topic = await kafka.topic()
  await using service = await Service.start({ ...settings, ...kafkaSettings(kafka, topic) })
  const hasCandidates = settings["ROLLCALL_MODELS"] === withCandidates["ROLLCALL_MODELS"]
  return await untilInKafka(origin, service, kafka, topic, records, hasCandidates ? 2 * records : records)
}

const runOfService = async (origin: RunningOrigin, kafka: Kafka, folder: Folder, records: number): Promise<Runs> => {
  await origin.resetCounts()
  const topic = await kafka.topic()
  const settings = { ...settingsFor(folder, origin.url), ...kafkaSettings(kafka, topic) }
  await using service = await Service.start(settings)
  const first = await untilInKafka(origin, service, kafka, topic, records)
  await setTimeout(2000)

  await origin.resetCounts()
  const before = service.process.cpuSeconds
  const swept = await costUntil(origin, service, await service.sweep())

  return {
    first: named("service", first),
    unchanged: named("service", { ...swept, cpuSeconds: swept["cpuSeconds"]! - before })
  }
}

/** Prints where the time goes: the first read to Kafka by one process, an unchanged sweep by the next one. */
const printProfiles = async (origin: RunningOrigin, kafka: Kafka, records: number) => {
  await using folder = await Folder.make()
  const topic = await kafka.topic()
  const settings = { ...settingsFor(folder, origin.url), ...kafkaSettings(kafka, topic) }
  const [ofFirst, ofUnchanged] = [join(folder.path, "first"), join(folder.path, "unchanged")]
  {
    await using service = await Service.start(settings, ofFirst)
    await untilInKafka(origin, service, kafka, topic, records)
  }
  {
    await using service = await Service.start(settings, ofUnchanged)
    await service.sweep()
  }
  printProfile(ofFirst, "first read to Kafka")
  printProfile(ofUnchanged, "unchanged sweep")
}

const platformatic: Settings = { ROLLCALL_KAFKA_DRIVER: "platformatic" }
/** Further first reads to Kafka. */
const variants: Readonly<Record<string, Settings>> = {
  platformatic,
  candidates: withCandidates,
  candidates_platformatic: { ...withCandidates, ...platformatic }
}

const measure = async (options: Options) => {
  const { profile, records = 50_000, runs = 3 } = options
  const kafka = await options.kafka()
  await using origin = await RunningOrigin.start(records)
  const measured: Record<keyof Runs, Array<Run>> = { first: [], unchanged: [] }
  for (let run = 0; run < runs; run++) {
    await using folder = await Folder.make()
    await using withoutKafka = await Folder.make()
    const read = named("read", await readOnly(origin))
    const places = { brokers: kafka.brokers, topic: await kafka.topic(), store: join(folder.path, "script.db") }
    const script = named("script", await runScript(origin, places))
    const scriptAgain = named("script", await runScript(origin, places))
    const log = named("log", await readWithoutKafka(origin, withoutKafka))
    let others: Run = {}
    for (const [name, settings] of Object.entries(variants)) {
      await using folder = await Folder.make()
      const cost = await readToKafka(origin, kafka, records, { ...settingsFor(folder, origin.url), ...settings })
      others = { ...others, ...named(name, cost) }
    }
    const service = await runOfService(origin, kafka, folder, records)
    measured.first.push({ ...read, ...script, ...log, ...others, ...service.first })
    measured.unchanged.push({ ...read, ...scriptAgain, ...service.unchanged })
    await kafka.deleteTopics()
  }
  if (profile) await printProfiles(origin, kafka, records)
  return measured
}

const names = {
  read: "`fetch` and `JSON.parse`",
  script: "script",
  log: "service without Kafka",
  service: "service",
  platformatic: "with platformatic",
  candidates: "with candidates",
  candidates_platformatic: "with candidates, platformatic"
}

const fullReadColumns = [
  rateColumn("records"),
  cpuColumn,
  cpuRatioColumn,
  column("peak memory, MB", "peakMegabytes")
]

export const sending =
  "A third of the processor time of first reads is [sending to Kafka](decisions/kafka.md#two-drivers)."
export const storing = "A quarter of a first read is SQLite, an eighth garbage collection, a tenth canonical forms."
const sweeping = "A fifth of an unchanged sweep is SQLite, a sixth cutting and hashing rows."
export const heap =
  "Most of the peak is garbage that V8 has not collected yet; [options that were tried](decisions/scheduling.md#memory-and-requests) cost a tenth more processor time."

export const first: Section = {
  name: "first",
  title: "First read",
  measure,
  goals: [
    goal("first read, CPU / script", cpuRatio("service", "script"), { atMost: 1.8 }, "×", sending),
    goal("with platformatic", cpuRatio("platformatic", "script"), { atMost: 1.5 }, "×", sending),
    goal("with candidates", cpuRatio("candidates", "script"), { atMost: 2.3 }, "×", sending),
    goal("with candidates, platformatic", cpuRatio("candidates_platformatic", "script"), { atMost: 2 }, "×", sending),
    goal(
      "first read without Kafka, CPU / `fetch` and `JSON.parse`",
      cpuRatio("log", "read"),
      { atMost: 5 },
      "×",
      storing
    ),
    goal("first read, peak memory", valueOf("service.peakMegabytes"), { atMost: 330 }, "MB", heap)
  ],
  table: (runs) => rowsTable(runs, "", names, fullReadColumns),
  explanation: `
All applications of one list (median 2.4 KB) are new, on a SQLite file. By default Rollcall derives a candidate from each, with an event of its own.
A contender is done when its topic has all events.`
}

export const unchanged: Section = {
  name: "unchanged",
  title: "Unchanged records",
  measure,
  goals: [
    goal("unchanged sweep, CPU / script", cpuRatio("service", "script"), { atMost: 0.9 }, "×", sweeping),
    goal("unchanged sweep, rate / script", rateRatio("service", "script"), { atLeast: 1.3 }, "×", sweeping)
  ],
  table: (runs) => rowsTable(runs, "", names, fullReadColumns),
  explanation: `
The same list again: the script starts and reads everything; the service runs a sweep. Its peak includes that of the first read.`
}
