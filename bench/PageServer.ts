/**
 * A process that serves one long list of applications at minimal cost, so that a benchmark measures the reader
 * and not the server. Argument: number of records. Prints its base address, then a line `run <ms>` at the start of each full
 * run.
 *
 * Gotchas
 * - Every page is the same serialized page of the sandbox's world with other ids, so that records take no memory.
 * - A request with `updated_after` or `ids` returns nothing, because nothing changes.
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { pageSizeLimits } from "../src/api/Lists.ts"
import { World } from "../src/sandbox/world/World.ts"

const records = Number(process.argv[2])
const pages = Math.ceil(records / pageSizeLimits.max)
const idLength = 24

// twice the page size, because some records are deleted and would not become events
const world = World.make({ seed: 1, start: Date.now(), records: 2 * pageSizeLimits.max, speed: 0 })
const rows = [...world.truth("sandbox:everything", "ats.application").values()].slice(0, pageSizeLimits.max)
  .map((row) => JSON.stringify(row))
const opening = `{"status":"success","data":{"results":[`
const body = Buffer.from(`${opening}${rows.join(",")}],"next":`)
const idOffsets: Array<number> = []
for (let at = Buffer.byteLength(opening), i = 0; i < rows.length; i++) {
  idOffsets.push(at + `{"id":"`.length)
  at += Buffer.byteLength(rows[i]!) + 1
}

const page = (number: number): Buffer => {
  const bytes = Buffer.from(body)
  idOffsets.forEach((offset, i) =>
    bytes.write(`rec${number * pageSizeLimits.max + i}`.padEnd(idLength, "x"), offset, "latin1")
  )
  const next = number + 1 < pages ? `"${number + 1}"` : "null"
  return Buffer.concat([bytes, Buffer.from(`${next}},"warnings":[]}`)])
}
const empty = Buffer.from(`{"status":"success","data":{"results":[],"next":null},"warnings":[]}`)

const server = createServer((request, response) => {
  const query = new URL(request.url ?? "", "http://localhost").searchParams
  const incremental = query.has("updated_after") || query.has("ids")
  const cursor = query.get("cursor")
  if (!incremental && cursor === null) process.stdout.write(`run ${Date.now()}\n`)
  const answer = incremental ? empty : page(Number(cursor ?? 0))
  response.writeHead(200, { "content-type": "application/json", "content-length": answer.length }).end(answer)
})
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1\n`)
})
