/** The cost of a large stream of small records. */
import { costUntil, readWithoutKafka } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import type { Options, Run, Section } from "../Section.ts"
import { Folder, Service, settingsFor } from "../Service.ts"
import { column, goal, named, rateColumn, rowsTable, valueOf } from "../Table.ts"
import { heap, storing } from "./Reading.ts"

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
  million: [await readAndSweep(records)]
})

const bytes = "Almost half of the bytes of a small record are ids, hashes and indexes."

export const million: Section = {
  name: "million",
  title: "A million records",
  measure,
  goals: [
    goal("first read of a million, CPU", valueOf("read.cpuSeconds"), { atMost: 50 }, "s", storing),
    goal("sweep of a million, CPU", valueOf("sweep.cpuSeconds"), { atMost: 20 }, "s"),
    goal("bytes on disk per record of 600 B", valueOf("read.bytesPerRecord"), { atMost: 900 }, "B", bytes),
    goal("first read of a million, peak memory", valueOf("read.peakMegabytes"), { atMost: 330 }, "MB", heap)
  ],
  table: (runs) =>
    rowsTable(runs, "", { read: "first read", sweep: "unchanged sweep" }, [
      rateColumn("records"),
      column("CPU s", "cpuSeconds", 1),
      column("peak memory, MB", "peakMegabytes"),
      column("bytes per record", "bytesPerRecord")
    ]),
  explanation:
    "Applications of 600 B without Kafka, on a SQLite file. Each row is a process of its own, from its start."
}
