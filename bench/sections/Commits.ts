/** Commits of the store on PostgreSQL. */
import { runProgram } from "../Process.ts"
import type { Options, Section } from "../Section.ts"
import { formatted, medianOf, table, valueOf } from "../Table.ts"

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
    const value = (prefix: string, name: string, digits = 0) =>
      formatted(medianOf(runs, valueOf(`${prefix}.${name}`)), digits)
    const rows = { "0": "poll without changes", "1": "page with 1 event", "25": "page with 25 events" }
    return `${
      table(
        ["", "commits/s", "CPU ms", "commits/s, ten at once", "CPU ms"],
        Object.entries(rows).map(([events, name]) => [
          name,
          ...[`1-${events}`, `10-${events}`].flatMap((prefix) => [
            value(prefix, "commitsPerSecond"),
            value(prefix, "cpuMillis", 2)
          ])
        ])
      )
    }

An event takes ${shown("bytesPerEvent")} bytes on disk, a record ${
      shown("bytesPerHead")
    } besides its newest event. The state of ${shown("streams")} fresh streams is read in ${
      shown("readStreamsMillis")
    } ms.`
  },
  explanation: `
The store alone, from one process, on a server that waits for the disk at each commit. An event has 2.4 KB that cannot be compressed. Transactions
that add events wait for each other, because they number the events.`
}
