/**
 * Records/s of the real service over real HTTP, new (backfill) and unchanged (sweep), compared with a floor in the same run:
 * fetch and `JSON.parse` of the same pages, nothing else.
 *
 * `node bench/Capture.ts [records] [runs]`, default 50,000 and 3.
 */
import { withBench } from "./Bench.ts"
import { compareWithFloor, type Measurement } from "./Table.ts"

const records = Number(process.argv[2] ?? 50_000)
const runs = Number(process.argv[3] ?? 3)

/** Reads the whole list page by page, in the simplest possible way. */
const floor = async (url: string): Promise<Measurement> => {
  const startedAt = Date.now()
  const before = process.cpuUsage()
  let rows = 0
  for (let next: string | null = ""; next !== null;) {
    const response = await fetch(`${url}/ats/applications?page_size=250${next === "" ? "" : `&cursor=${next}`}`)
    const { data }: { data: { results: ReadonlyArray<unknown>; next: string | null } } = JSON.parse(
      await response.text()
    )
    rows += data.results.length
    next = data.next
  }
  const { system, user } = process.cpuUsage(before)
  return { rows, seconds: (Date.now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 }
}

const run = () =>
  withBench(records, async ({ server, service, url }): Promise<Record<string, Measurement>> => {
    await floor(url) // warms up both ends
    const bare = await floor(url)
    for (let i = 0; i < 2; i++) await server.line("run")
    const rollcall = service()
    const measureRun = async (name: string, cpuBefore: number) => {
      const startedAt = Number((await server.line("run")).text.split(" ")[1])
      const { at, cpuSeconds } = await rollcall.line(`${name} complete`)
      return {
        rows: records,
        seconds: (at - startedAt) / 1000,
        cpuSeconds: cpuSeconds - cpuBefore,
        cpuAfter: cpuSeconds
      }
    }
    const backfill = await measureRun("backfill", (await rollcall.line(`"started"`)).cpuSeconds)
    const first = await measureRun("sweep", backfill.cpuAfter)
    const second = await measureRun("sweep", first.cpuAfter)
    return { "fetch + JSON.parse": bare, "new (backfill)": backfill, "unchanged (sweep)": second }
  })

const results: Array<Record<string, Measurement>> = []
for (let i = 0; i < runs; i++) results.push(await run())
console.log(`${records.toLocaleString("en")} applications of 2.4 KB, median of ${runs} runs, Node ${process.version}\n`)
console.log(compareWithFloor("fetch + JSON.parse", "records", results))
