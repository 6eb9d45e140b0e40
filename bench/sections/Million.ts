/** The cost of a large stream of small records. */
import { costUntil, readWithoutKafka } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import type { Options, Run, Section } from "../Section.ts"
import { Folder, Service, settingsFor } from "../Service.ts"
import { column, cpuColumn, goal, named, rateColumn, rowsTable, valueOf } from "../Table.ts"

/** A first read and a sweep without Kafka, each by a process of its own. */
const readAndSweep = async (records: number): Promise<Run> => {
  await using origin = await RunningOrigin.start(records, "compact")
  await using folder = await Folder.make()
  const read = await readWithoutKafka(origin, folder)
  const bytes = { bytesPerRecord: (await folder.storeBytes()) / records }
  await origin.resetCounts()
  await using service = await Service.start(settingsFor(folder, origin.url))
  const sweep = { ...await costUntil(origin, service, await service.sweep()), records }
  return { ...named("read", { ...read, ...bytes }), ...named("sweep", sweep) }
}

const measure = async ({ records = 1_000_000 }: Options) => ({
  million: { runs: [await readAndSweep(records)] }
})

export const million: Section = {
  name: "million",
  title: "A million records",
  measure,
  goals: [
    goal("first read of 1,000,000 records of 600 B, CPU", valueOf("read.cpuSeconds"), 96.4, { atMost: 50 }, "s"),
    goal("sweep of 1,000,000 records of 600 B, CPU", valueOf("sweep.cpuSeconds"), 29.2, { atMost: 20 }, "s"),
    goal("bytes on disk for a record of 600 B", valueOf("read.bytesPerRecord"), 1105, { atMost: 900 }, "B"),
    goal("peak memory of a first read, 1,000,000 records", valueOf("read.peakMegabytes"), 346, { atMost: 330 }, "MB")
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
