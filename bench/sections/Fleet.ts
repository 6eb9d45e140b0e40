/** The same work by one, two and three processes on one PostgreSQL database. */
import { setTimeout } from "node:timers/promises"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import type { Postgres } from "../Postgres.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { Service, settingsFor } from "../Service.ts"
import { column, cpuColumn, cpuRatioColumn, named, rowsTable } from "../Table.ts"

const integrations = 24

/** How many integrations are read completely. The log may lack a line: that of a process which lost the stream at this moment. */
const completedBy = async ({ url }: Service): Promise<number> => {
  const { items }: { items: ReadonlyArray<{ live: number }> } = await (await fetch(`${url}/v1/integrations`)).json()
  return items.filter(({ live }) => live > 0).length
}

/** `records`: of all integrations together. All processes start at the same time. Their cost is summed. */
const readBy = async (processes: number, records: number, origin: RunningOrigin, postgres: Postgres): Promise<Run> => {
  await origin.resetCounts()
  const settings = {
    ...settingsFor(await postgres.database(), origin.url),
    ROLLCALL_INTEGRATIONS: Array.from({ length: integrations }, (_, index) => `greenhouse:bench-${index}`).join()
  }
  await using services = new AsyncDisposableStack()
  const fleet = await Promise.all(
    Array.from({ length: processes }, async () => services.use(await Service.start(settings)))
  )
  while (await completedBy(fleet[0]!) < integrations) await setTimeout(100)
  const sumOf = (value: (service: Service) => number) => fleet.reduce((sum, service) => sum + value(service), 0)
  const { records: read, requests } = await origin.counts()
  return {
    records,
    read,
    requests,
    cpuSeconds: sumOf(({ process }) => process.cpuSeconds),
    peakMegabytes: sumOf(({ process }) => process.peakMegabytes)
  }
}

const measure = async (options: Options) => {
  const { records = 48_000, runs = 1 } = options
  const postgres = await options.postgres()
  const perIntegration = Math.ceil(records / integrations)
  await using origin = await RunningOrigin.start(perIntegration)
  const measureOnce = async () => {
    let values: Run = {}
    for (const [index, name] of ["one", "two", "three"].entries()) {
      const cost = await readBy(index + 1, integrations * perIntegration, origin, postgres)
      values = { ...values, ...named(name, cost) }
      await postgres.dropDatabases()
    }
    return values
  }
  return { fleet: { runs: await repeat(runs, measureOnce) } }
}

export const fleet: Section = {
  name: "fleet",
  title: "A fleet",
  measure,
  table: (runs) =>
    rowsTable(runs, "", { one: "one process", two: "two", three: "three" }, [
      column("records read", "read"),
      cpuColumn,
      cpuRatioColumn("one", "one"),
      column("peak memory, MB", "peakMegabytes")
    ]),
  explanation: `
The first read of 48,000 records of ${integrations} integrations without Kafka; values are sums over all processes. The table shows what it costs to divide
the work, not how much faster it becomes. A list whose pages two processes have read is read once more ([why](decisions/completeness.md)).`
}
