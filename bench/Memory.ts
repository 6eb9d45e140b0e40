/**
 * Peak resident memory of the service process after a backfill and two sweeps of small and large streams.
 *
 * `node bench/Memory.ts [records …]`, default 250, 10,000 and 200,000.
 */
import { withBench } from "./Bench.ts"
import { table } from "./Table.ts"

const sizes = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [250, 10_000, 200_000]

const rows: Array<ReadonlyArray<string>> = []
for (const records of sizes) {
  rows.push(
    await withBench(records, async ({ service }) => {
      const rollcall = service()
      await rollcall.line(`"started"`)
      const peaks = [rollcall.peakMegabytes]
      for (const name of ["backfill", "sweep", "sweep"]) {
        await rollcall.line(`${name} complete`)
        peaks.push(rollcall.peakMegabytes)
      }
      return [records.toLocaleString("en"), ...peaks.map((peak) => peak.toFixed(0))]
    })
  )
}
console.log(`Peak RSS of the service process, MB, Node ${process.version}\n`)
console.log(table(["records", "started", "backfilled", "swept", "swept again"], rows))
