/** Commits of the store on PostgreSQL. */
import { runProgram } from "../Process.ts"
import type { Options, Section } from "../Section.ts"
import { column, formatted, medianOf, rowsTable, valueOf } from "../Table.ts"

/** `--records` divides the length: 20,000 is the default. */
const measure = async ({ records = 20_000 }: Options) => ({
  commits: { runs: [await runProgram("Commits", Math.min(4, records / 1000), records)] }
})

export const commits: Section = {
  name: "commits",
  title: "Commits on PostgreSQL",
  measure,
  table: (runs) => {
    const shown = (name: string) => formatted(medianOf(runs, valueOf(name)))
    const names = {
      "1-0": "a poll without changes",
      "1-1": "a page with 1 event",
      "1-25": "a page with 25 events",
      "10-0": "a poll without changes",
      "10-1": "a page with 1 event",
      "10-25": "a page with 25 events"
    }
    return `${
      rowsTable(runs, "", names, [
        column("at once", "concurrency"),
        column("commits/s", "commitsPerSecond"),
        column("events/s", "eventsPerSecond"),
        column("CPU ms of the process per commit", "cpuMillis", 2)
      ])
    }

An event takes ${shown("bytesPerEvent")} bytes on disk, a record ${
      shown("bytesPerHead")
    } besides its newest event. The state of ${shown("streams")} fresh streams is read in ${
      shown("readStreamsMillis")
    } ms.`
  },
  explanation: `
The store alone: one process on a PostgreSQL server with default settings, which waits for the disk at each commit. An event has 2.4 KB that
cannot be compressed. Transactions that add events wait for each other, because they number the events.`
}
