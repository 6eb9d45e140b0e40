/**
 * A script such as an engineer writes in an afternoon: it reads the list, compares each record with the JSON of the last time, sends
 * the differences with kafkajs and stores the new JSON, one transaction per page.
 *
 * `node bench/contenders/Script.ts <base address> <broker,…> <topic> <SQLite file or URL of PostgreSQL> full|incremental`; prints its cost.
 *
 * Gotchas
 * - It is not correct: it reads without overlap, sends before it commits, notices only deletes that are flagged, and cannot
 *   find a change that does not move `changed_at`.
 */
import kafkajs from "kafkajs"
import { pages, printCost } from "./Pages.ts"
import { open } from "./Snapshots.ts"

const [url, brokers, topic, place, mode] = process.argv.slice(2) as [string, string, string, string, string]
const kafka = new kafkajs.Kafka({ brokers: brokers.split(","), logLevel: kafkajs.logLevel.NOTHING })
const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
await producer.connect()
const snapshots = await open(place)
const counts = { read: 0, created: 0, updated: 0, deleted: 0 }

for await (const records of pages(url, mode === "incremental" ? await snapshots.newestChange() : null)) {
  counts.read += records.length
  const messages: Array<{ key: string; value: string }> = []
  const changed = await snapshots.begin(records.map((record) => ({ record, json: JSON.stringify(record) })))
  for (const { before, record } of changed) {
    const kind = record.remote_deleted_at !== null ? "deleted" : before === undefined ? "created" : "updated"
    counts[kind]++
    const event = { kind, id: record.id, before: before === undefined ? null : JSON.parse(before), after: record }
    messages.push({ key: record.id, value: JSON.stringify(event) })
  }
  if (messages.length > 0) await producer.send({ topic, messages })
  await snapshots.commit()
}
await producer.disconnect()
await snapshots.close()
printCost(counts)
