/** Memory of one stream by its number of records, and the cost of a large stream of small records. */
import { costUntil, readWithoutKafka } from "../contenders/Contenders.ts"
import type { Form } from "../origin/Applications.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import type { Options, Run, Section } from "../Section.ts"
import { Folder, Service, settingsFor } from "../Service.ts"
import { column, cpuColumn, medianOf, named, rateColumn, rowsTable, valueOf } from "../Table.ts"

/** A first read and a sweep without Kafka, each by a process of its own. */
const readAndSweep = async (records: number, form: Form): Promise<Run> => {
  await using origin = await RunningOrigin.start(records, form)
  await using folder = await Folder.make()
  const read = await readWithoutKafka(origin, folder)
  const bytes = { bytesPerRecord: (await folder.storeBytes()) / records }
  await origin.resetCounts()
  await using service = await Service.start(settingsFor(folder, origin.url))
  const sweep = { ...await costUntil(origin, service, await service.sweep()), records }
  return { ...named("read", { ...read, ...bytes }), ...named("sweep", sweep) }
}

const measureMemory = async ({ records = 200_000 }: Options) => {
  const sizes = [250, Math.ceil(records / 20), records]
  const values: Array<Run> = []
  for (const size of sizes) {
    const { "read.peakMegabytes": read = NaN, "sweep.peakMegabytes": sweep = NaN } = await readAndSweep(size, "full")
    values.push(named(["small", "medium", "large"][values.length]!, { records: size, read, sweep }))
  }
  return { memory: { runs: [Object.assign({}, ...values)] } }
}

export const memory: Section = {
  name: "memory",
  title: "Memory",
  measure: measureMemory,
  goals: [{
    name: "peak memory of a first read, 200,000 records",
    before: 442,
    goal: { atMost: 250 },
    unit: "MB",
    digits: 0,
    value: (runs) => medianOf(runs, valueOf("large.read")),
    shortfall: `See the first read. A million small records need no more.`
  }],
  table: (runs) =>
    rowsTable(runs, "", { small: "one page", medium: "many pages", large: "a large stream" }, [
      column("records", "records"),
      column("peak of a first read, MB", "read"),
      column("peak of a sweep, MB", "sweep")
    ]),
  explanation: `
Peak resident memory of the process that reads a list for the first time, without Kafka, and of the next process, which starts on the same
SQLite file and sweeps.`
}

const measureMillion = async ({ records = 1_000_000 }: Options) => ({
  million: { runs: [await readAndSweep(records, "compact")] }
})

export const million: Section = {
  name: "million",
  title: "A million records",
  measure: measureMillion,
  goals: [
    {
      name: "first read of 1,000,000 records of 600 B, CPU",
      before: 56,
      goal: { atMost: 25 },
      unit: "s",
      digits: 1,
      value: (runs) => medianOf(runs, valueOf("read.cpuSeconds")),
      shortfall:
        `96 µs for each record, and about the same with 100,000 records, so the size of the tables is not the cause; see the first read.`
    },
    {
      name: "sweep of 1,000,000 records of 600 B, CPU",
      before: 34,
      goal: { atMost: 12 },
      unit: "s",
      digits: 1,
      value: (runs) => medianOf(runs, valueOf("sweep.cpuSeconds")),
      shortfall: `30 µs for each record; see the unchanged sweep.`
    },
    {
      name: "bytes on disk for a record of 600 B",
      before: 875,
      goal: { atMost: 700 },
      unit: "B",
      digits: 0,
      value: (runs) => medianOf(runs, valueOf("read.bytesPerRecord")),
      shortfall:
        `820 bytes are the event (590 of them its content), 151 the head and 36 its index, 54 the reference to the job, 37 the indexes of the log. Ids and hashes
  as bytes instead of text would save about 35. Only compressed content would reach the goal, and it would cost processor time.`
    },
    {
      name: "peak memory of a first read, 1,000,000 records",
      before: NaN,
      goal: { atMost: 250 },
      unit: "MB",
      digits: 0,
      value: (runs) => medianOf(runs, valueOf("read.peakMegabytes")),
      shortfall: `See the first read; more records do not need more.`
    }
  ],
  table: (runs) =>
    rowsTable(runs, "", { read: "first read", sweep: "unchanged sweep" }, [
      column("records", "records"),
      rateColumn("records"),
      column("CPU s", "cpuSeconds", 1),
      cpuColumn,
      column("peak memory, MB", "peakMegabytes"),
      column("bytes on disk per record", "bytesPerRecord")
    ]),
  explanation: `
Applications of 600 B without Kafka, on a SQLite file; each row is a process of its own, and its start is included.`
}
