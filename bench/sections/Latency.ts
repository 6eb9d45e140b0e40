/** The time from a change to Kafka. */
import { runProgram } from "../Process.ts"
import { type Options, repeat, type Section } from "../Section.ts"
import { formatted, medianOf, table, valueOf } from "../Table.ts"

const rate = 200

/** `records` is the number of changes. */
const measure = async ({ kafka: start, records = 60 * rate, runs = 1 }: Options) => {
  const kafka = await start()
  const measureOnce = async () => {
    const values = await runProgram("Latency", kafka.brokers, await kafka.topic(), rate, Math.ceil(records / rate))
    await kafka.deleteTopics()
    return values
  }
  return { latency: { runs: await repeat(runs, measureOnce) } }
}

export const latency: Section = {
  name: "latency",
  title: "From a change to Kafka",
  measure,
  table: (runs) => {
    const names = ["p50", "p90", "p99", "max"]
    return table(["ms", ...names], [
      [`${rate} changes/s`, ...names.map((name) => formatted(medianOf(runs, valueOf(name))))]
    ])
  },
  explanation: `
From the moment when the API shows a change until a consumer of committed messages has it. The stream is polled every second, so half a second is
the wait for the poll.`
}
