/**
 * The cost of encrypting stored content: records/s of the real service, new (backfill), and the size of its file, with a key compared
 * with the same service without one, in the same run and in turn.
 *
 * `node bench/Encryption.ts [records] [runs]`, default 50,000 and 3.
 */
import { randomBytes } from "node:crypto"
import { statSync } from "node:fs"
import { withBench } from "./Bench.ts"
import { compareWithFloor, type Measurement } from "./Table.ts"

const records = Number(process.argv[2] ?? 50_000)
const runs = Number(process.argv[3] ?? 3)

const sizes: Record<string, number> = {}

const backfill = (name: string, settings: Readonly<Record<string, string>>) =>
  withBench(records, async ({ file, server, service }): Promise<Measurement> => {
    const rollcall = service(settings)
    const { cpuSeconds: before } = await rollcall.line(`"started"`)
    const startedAt = Number((await server.line("run")).text.split(" ")[1])
    const { at, cpuSeconds } = await rollcall.line("backfill complete")
    await rollcall.stop()
    sizes[name] = statSync(file).size
    return { rows: records, seconds: (at - startedAt) / 1000, cpuSeconds: cpuSeconds - before }
  })

const plain = "new, without a key"
const encrypted = "new, encrypted"
const results: Array<Record<string, Measurement>> = []
for (let i = 0; i < runs; i++) {
  results.push({
    [plain]: await backfill(plain, {}),
    [encrypted]: await backfill(encrypted, { ROLLCALL_ENCRYPTION_KEY: randomBytes(32).toString("base64") })
  })
}
console.log(`${records.toLocaleString("en")} applications of 2.4 KB, median of ${runs} runs, Node ${process.version}\n`)
console.log(compareWithFloor(plain, "records", results))
for (const [name, size] of Object.entries(sizes)) console.log(`file, ${name}: ${(size / 1e6).toFixed(0)} MB`)
