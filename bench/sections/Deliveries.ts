/** Deliveries to plugins. */
import { Process } from "../Process.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { cpuColumn, goal, rateColumn, rateRatio, rowsTable } from "../Table.ts"

const measureOnce = async (records: number): Promise<Run> => {
  await using program = new Process("bench/programs/Deliveries.ts", [String(records)], "stdout")
  return JSON.parse((await program.line("{")).text)
}

const measure = async ({ records = 20_000, runs = 3 }: Options) => ({
  deliveries: await repeat(runs, () => measureOnce(records))
})

const steps = "Each delivery is created, claimed and settled in the store."

export const deliveries: Section = {
  name: "deliveries",
  title: "Deliveries",
  measure,
  goals: [
    goal("one handler, deliveries/s / reading the log", rateRatio("one", "read"), { atLeast: 0.3 }, "×", steps)
  ],
  table: (runs) =>
    rowsTable(runs, "", { read: "reading the log", one: "one handler" }, [
      rateColumn("deliveries"),
      { title: "rate / reading", value: (prefix) => rateRatio(prefix, "read"), digits: 2 },
      cpuColumn
    ]),
  explanation:
    "Events of 2.2 KB go to an empty handler on a SQLite file, compared with reading the log and parsing its rows."
}
