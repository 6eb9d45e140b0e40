/** A year in virtual time. */
import { runProgram } from "../programs/Programs.ts"
import type { Options, Section } from "../Section.ts"
import { column, rowsTable } from "../Table.ts"

const changesADay = 8

/** `--records` is the number of changes: 8 a day for twelve months by default. */
const measure = async ({ records = changesADay * 365 }: Options) => {
  const months = Math.min(12, Math.ceil(records / changesADay / 31))
  return { year: { runs: [await runProgram("Year", changesADay, months)] } }
}

export const year: Section = {
  name: "year",
  title: "A year",
  measure,
  table: (runs) =>
    rowsTable(runs, "month", Object.fromEntries(Array.from({ length: 12 }, (_, i) => [i + 1, String(i + 1)])), [
      column("requests a day", "requests", 1),
      column("events a day", "events", 1),
      column("CPU ms a day", "cpuMillis"),
      column("heap, MB", "heapMegabytes", 1),
      column("file, KB", "fileKilobytes"),
      column("`events`", "rows_events"),
      column("`heads`", "rows_heads"),
      column("`record_references`", "rows_record_references"),
      column("other rows", "rows_others")
    ]),
  explanation: `
${changesADay} changes a day to two streams of 100 records, polled every six hours and swept every day, without faults; retention 7 days, as by
default. \`heads\` has a row for each id ever seen, \`events\` the log within retention and the latest row of each record however old.
The file is measured after its write-ahead log was written back; that log is at most 8 MB.`
}
