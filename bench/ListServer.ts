/**
 * A process that serves short lists of every incremental model to any integration at minimal cost, so that a benchmark of many streams
 * measures the reader and not the server. Argument: number of records of each list. Prints its base address.
 *
 * Gotchas
 * - Every integration gets the same records. A request with `updated_after` or `ids` returns nothing, because nothing changes.
 * - `GET /polled` counts the polls (requests with `updated_after`) since the last `GET /polled?reset`, and their streams.
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { incrementalModels, lists } from "../src/api/Lists.ts"
import { World } from "../src/sandbox/world/World.ts"

const records = Number(process.argv[2])
const world = World.make({ seed: 1, start: Date.now() - 3_600_000, records: Math.max(20, 2 * records), speed: 0 })

const body = (rows: ReadonlyArray<string>) =>
  Buffer.from(`{"status":"success","data":{"results":[${rows.join(",")}],"next":null},"warnings":[]}`)
const empty = body([])
const full = new Map(incrementalModels.map((model) => {
  const rows = [...world.truth("sandbox:everything", model).values()].slice(0, records)
  return [`/v1${lists[model].path}`, body(rows.map((row) => JSON.stringify(row)))]
}))
const polled = new Set<string>()
let polls = 0

const server = createServer((request, response) => {
  const url = request.url ?? ""
  const end = url.indexOf("?")
  const path = end < 0 ? url : url.slice(0, end)
  if (path === "/polled") {
    response.end(JSON.stringify({ streams: polled.size, polls }))
    if (!url.endsWith("reset")) return
    polled.clear()
    polls = 0
    return
  }
  const incremental = url.includes("updated_after=")
  if (incremental) {
    polled.add(`${request.headers["x-integration-id"]}${path}`)
    polls++
  }
  const answer = incremental || url.includes("&ids=") ? empty : full.get(path) ?? empty
  response.writeHead(200, { "content-type": "application/json", "content-length": answer.length }).end(answer)
})
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1\n`)
})
