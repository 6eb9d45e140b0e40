/** Deliveries to plugins. */
import { runProgram } from "../Process.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import {
  cpuColumn,
  cpuRatioColumn,
  formatted,
  goal,
  medianOf,
  rateColumn,
  rateRatio,
  rateRatioColumn,
  rowsTable,
  valueOf
} from "../Table.ts"

const measure = async ({ records = 20_000, runs = 3 }: Options) => ({
  deliveries: { runs: await repeat(runs, () => runProgram("Deliveries", records)) }
})

const delays = (runs: ReadonlyArray<Run>, prefix: string): string =>
  `p50 ${formatted(medianOf(runs, valueOf(`${prefix}.p50`)))} ms, p99 ${
    formatted(medianOf(runs, valueOf(`${prefix}.p99`)))
  } ms`

export const deliveries: Section = {
  name: "deliveries",
  title: "Deliveries",
  measure,
  goals: [
    goal("one handler, deliveries/s relative to reading the log", rateRatio("one", "read"), 0.14, { atLeast: 0.3 }, "×")
  ],
  table: (runs) =>
    `${
      rowsTable(runs, "", {
        read: "log and `JSON.parse`",
        one: "one handler",
        five: "five handlers",
        batches: "one handler of batches of 100"
      }, [
        rateColumn("deliveries"),
        rateRatioColumn("read", "read"),
        cpuColumn,
        cpuRatioColumn("read", "read")
      ])
    }

Delay of two plugins without others: ${delays(runs, "alone")}; beside a plugin that sleeps 30 s for each event: ${
      delays(runs, "beside")
    }.`,
  explanation: `
Events of 2.2 KB go to empty handlers on a SQLite file, compared with reading the log and parsing its rows, without the start. The delays are measured at 500 events/s.`
}
