/**
 * A script such as an engineer writes in an afternoon: it reads the list, compares each record with the JSON of the last time, sends
 * the differences with kafkajs and stores the new JSON, one transaction per page.
 *
 * `node bench/contenders/Script.ts <base address> <broker,…> <topic> <SQLite file or URL of PostgreSQL>`; prints its cost.
 *
 * Gotchas
 * - It is not correct: it sends before it commits, and notices only deletes that are flagged.
 */
import kafkajs from "kafkajs"
import { pages, printCost } from "./Pages.ts"
import { open } from "./Snapshots.ts"

const [url, brokers, topic, place] = process.argv.slice(2) as [string, string, string, string]
const kafka = new kafkajs.Kafka({ brokers: brokers.split(","), logLevel: kafkajs.logLevel.NOTHING })
const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
await producer.connect()
const snapshots = await open(place)

for await (const records of pages(url)) {
  const messages: Array<{ key: string; value: string }> = []
  const changed = await snapshots.begin(records.map((record) => ({ record, json: JSON.stringify(record) })))
  for (const { before, record } of changed) {
    const kind = record.remote_deleted_at !== null ? "deleted" : before === undefined ? "created" : "updated"
    const event = { kind, id: record.id, before: before === undefined ? null : JSON.parse(before), after: record }
    messages.push({ key: record.id, value: JSON.stringify(event) })
  }
  if (messages.length > 0) await producer.send({ topic, messages })
  await snapshots.commit()
}
await producer.disconnect()
await snapshots.close()
printCost()
