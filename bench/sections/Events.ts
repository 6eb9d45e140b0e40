/** Reading the event log over HTTP. */
import { readWithoutKafka } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { Folder, Service, settingsFor } from "../Service.ts"
import { column, cpuColumn, named, rateColumn, rowsTable } from "../Table.ts"

const perPage = 1000

/** Requests pages until there are no more; returns how many events there were. The client does not parse them. */
const readAll = async (url: string): Promise<number> => {
  let events = 0
  let after: string | null = null
  for (;;) {
    const response: Response = await fetch(
      `${url}/v1/events?limit=${perPage}${after === null ? "" : `&after=${after}`}`
    )
    const page: Buffer = Buffer.from(await response.arrayBuffer())
    if (!response.ok) throw new Error(page.toString())
    let found = 0
    for (let at = page.indexOf(`"specversion":`); at >= 0; at = page.indexOf(`"specversion":`, at + 1)) found++
    if (found === 0) return events
    events += found
    after = /"next":"([^"]+)"/.exec(page.subarray(-500).toString())?.[1] ?? null
    if (after === null) throw new Error("the page does not end with the next position")
  }
}

const readOnce = async (service: Service): Promise<Run> => {
  const startedAt = Date.now()
  const before = service.process.cpuSeconds
  const records = await readAll(service.url)
  return { records, seconds: (Date.now() - startedAt) / 1000, cpuSeconds: service.process.cpuSeconds - before }
}

const measure = async ({ records = 50_000, runs = 3 }: Options) => {
  await using origin = await RunningOrigin.start(records)
  await using folder = await Folder.make()
  await readWithoutKafka(origin, folder)
  const settings = settingsFor(folder, origin.url)
  const measured = await repeat(runs, async () => {
    await using service = await Service.start(settings)
    const values = named("page", await readOnce(service))
    return { ...values, "page.peakMegabytes": service.process.peakMegabytes }
  })
  return { events: { runs: measured } }
}

export const events: Section = {
  name: "events",
  title: "Reading the log over HTTP",
  measure,
  table: (runs) =>
    rowsTable(runs, "", { page: `pages of ${perPage} events` }, [
      rateColumn("events"),
      cpuColumn,
      column("peak memory, MB", "peakMegabytes")
    ]),
  explanation: "One client reads `created` events of 3 KB from a SQLite file, page by page, and does not parse them."
}
