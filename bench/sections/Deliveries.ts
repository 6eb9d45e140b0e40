/** Deliveries to plugins. */
import { runProgram } from "../Process.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import {
  cpuColumn,
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

const steps = "Each delivery is created, claimed and settled in the store."

export const deliveries: Section = {
  name: "deliveries",
  title: "Deliveries",
  measure,
  goals: [
    goal("one handler, deliveries/s / reading the log", rateRatio("one", "read"), { atLeast: 0.3 }, "×", steps)
  ],
  table: (runs) =>
    `${
      rowsTable(runs, "", {
        read: "reading the log",
        one: "one handler",
        five: "five",
        batches: "one, batches of 100"
      }, [
        rateColumn("deliveries"),
        rateRatioColumn("read", "reading"),
        cpuColumn
      ])
    }

Delay of two plugins at 500 events/s: ${delays(runs, "alone")}; beside a plugin that sleeps 30 s for each event: ${
      delays(runs, "beside")
    }.`,
  explanation:
    "Events of 2.2 KB go to empty handlers on a SQLite file, compared with reading the log and parsing its rows."
}
