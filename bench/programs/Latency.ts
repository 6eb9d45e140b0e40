/**
 * The time from when the API shows a change until a consumer of Kafka (`read_committed`) has it, with a steady rate of changes: the
 * real service, a real broker, and one stream that is polled every second.
 *
 * `node bench/programs/Latency.ts <broker,…> <topic> <changes per second> <seconds>`; prints a line of values.
 *
 * Gotchas
 * - A change waits for the next poll: half of the interval on average, even if everything else took no time.
 * - Every change must arrive, or the slowest ones would be missing. Only a change that the next one of its record replaced before it
 *   was read cannot arrive; these are counted.
 */
import kafkajs from "kafkajs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { setTimeout } from "node:timers/promises"
import { pageSizeLimits } from "../../src/api/Lists.ts"
import { World } from "../../src/sandbox/world/World.ts"
import { Folder, kafkaSettings, Service, settingsFor } from "../Service.ts"
import { quantile } from "../Table.ts"

const [brokers, topic, rate, seconds] = process.argv.slice(2) as [string, string, string, string]
const records = 5000
/** Changes of the first seconds are not measured: the stream's first polls are slower. */
const warmUp = 5
/** Longest time for the last changes to arrive. */
const limitSeconds = 180

interface Tag {
  readonly id: string
  readonly changedAt: number
  readonly text: string
}

const [sample] = World.make({ seed: 1, start: Date.now(), records: 100, speed: 0 })
  .truth("sandbox:everything", "ats.tag").values()
const tagOf = (index: number, changedAt: number): Tag => {
  const id = `tag${index}`.padEnd(24, "x")
  const row = {
    ...sample as object,
    id,
    remote_id: id,
    name: `changed ${changedAt}`,
    changed_at: new Date(changedAt).toISOString(),
    remote_deleted_at: null
  }
  return { id, changedAt, text: JSON.stringify(row) }
}
const tags = new Map<string, Tag>()
const change = (index: number, at: number): Tag => {
  const tag = tagOf(index, at)
  tags.set(tag.id, tag)
  return tag
}
for (let index = 0; index < records; index++) change(index, Date.now() - 3_600_000)

/** A page continues after the last id of the page before it, so that a page misses no change. */
const server = createServer((request, response) => {
  const query = new URL(request.url ?? "", "http://localhost").searchParams
  const since = Date.parse(query.get("updated_after") ?? "1970-01-01T00:00:00.000Z")
  const cursor = query.get("cursor") ?? ""
  const found = [...tags.values()].filter(({ changedAt, id }) => changedAt >= since && id > cursor)
  const page = found.sort((one, other) => one.id < other.id ? -1 : 1).slice(0, pageSizeLimits.max)
  const next = found.length > page.length ? `"${page.at(-1)?.id}"` : "null"
  response.writeHead(200, { "content-type": "application/json" }).end(
    `{"status":"success","data":{"results":[${page.map(({ text }) => text).join(",")}],"next":${next}},"warnings":[]}`
  )
})
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`

const latencies: Array<number> = []
/** Times of the measured changes that have not arrived yet, by record. */
const waiting = new Map<string, number>()
let replaced = 0
const consumer = new kafkajs.Kafka({ brokers: brokers.split(","), logLevel: kafkajs.logLevel.NOTHING })
  .consumer({ groupId: topic, maxWaitTimeInMs: 20 })
{
  await using folder = await Folder.make()
  await using service = await Service.start({
    ...settingsFor(folder, url),
    ROLLCALL_MODELS: "ats.tag",
    ROLLCALL_INTERVAL: "1 second",
    ROLLCALL_OVERLAP_MIN: "2 seconds",
    ...kafkaSettings({ brokers }, topic)
  })
  await service.logged("backfill complete")
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  const from = Date.now() + 1000 * warmUp
  const upTo = from + 1000 * Number(seconds)
  await consumer.run({
    eachBatch: async ({ batch }) => {
      const now = Date.now()
      for (const { headers, value } of batch.messages) {
        const id = String(headers?.["ce_subject"])
        const changedAt = Number(/"after":\{.*?"name":"changed (\d+)"/.exec(String(value))?.[1])
        if (waiting.get(id) !== changedAt) continue
        waiting.delete(id)
        latencies.push(now - changedAt)
      }
    }
  })
  const startedAt = Date.now()
  for (let changed = 0; Date.now() < upTo;) {
    for (const due = ((Date.now() - startedAt) / 1000) * Number(rate); changed < due; changed++) {
      const now = Date.now()
      const { id } = change(changed % records, now)
      if (now < from) continue
      if (waiting.has(id)) replaced++
      waiting.set(id, now)
    }
    await setTimeout(5)
  }
  for (const limit = Date.now() + 1000 * limitSeconds; waiting.size > 0;) {
    if (Date.now() > limit) throw new Error(`${waiting.size} changes did not arrive within ${limitSeconds} s`)
    await setTimeout(50)
  }
  await consumer.disconnect()
}
console.log(JSON.stringify({
  changes: latencies.length,
  replaced,
  p50: quantile(latencies, 0.5),
  p90: quantile(latencies, 0.9),
  p99: quantile(latencies, 0.99),
  max: quantile(latencies, 1)
}))
server.closeAllConnections()
server.close()
