/**
 * Messages/s from the event log of the real service through a real broker, compared with a floor in the same run: plain
 * kafkajs that sends the same encoded messages in transactions of the same size.
 *
 * `node bench/Relay.ts [records] [runs]`, default 50,000 and 3. Needs the same environment as the Kafka tests.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import kafkajs from "kafkajs"
import { randomUUID } from "node:crypto"
import { type KafkaMessage, messagesOf, splitIntoSends } from "../src/publish/kafka/KafkaMessage.ts"
import * as Sqlite from "../src/store/sqlite/Sqlite.ts"
import { Store } from "../src/store/Store.ts"
import { Broker, layer as brokerLayer } from "../test/integration/kafka/Broker.ts"
import { settings, withBench } from "./Bench.ts"
import { Process } from "./Process.ts"
import { compareWithFloor, type Measurement } from "./Table.ts"

const records = Number(process.argv[2] ?? 50_000)
const runs = Number(process.argv[3] ?? 3)
/** The relay's batch size, and the default limit of a topic's batches in bytes. */
const perTransaction = 500
const batchBytes = 1_048_588

type Transaction = ReadonlyArray<ReadonlyArray<KafkaMessage>>

/** The log, split into the transactions in which the relay sends it. */
const transactionsOf = (file: string, topic: string): Promise<ReadonlyArray<Transaction>> =>
  Effect.gen(function*() {
    const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
    const transactions: Array<Transaction> = []
    const encoding = { identity: store.identity, topic, state: false, limitOf: () => batchBytes }
    for (let after = 0;;) {
      const entries = yield* store.readLog({ after, limit: perTransaction })
      if (entries.length === 0) return transactions
      transactions.push(
        splitIntoSends(entries.flatMap((entry) => messagesOf(encoding, entry).messages), () => batchBytes)
      )
      after = entries.at(-1)!.position
    }
  }).pipe(Effect.scoped, Effect.runPromise)

const floor = async (brokers: ReadonlyArray<string>, file: string): Promise<Measurement> => {
  const topic = `bench-${randomUUID()}`
  const transactions = await transactionsOf(file, topic)
  const kafka = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 6 }], waitForLeaders: true })
  await admin.disconnect()
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    transactionalId: topic,
    retry: { initialRetryTime: 20 },
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner
  })
  await producer.connect()
  const startedAt = Date.now()
  const before = process.cpuUsage()
  for (const sends of transactions) {
    const transaction = await producer.transaction()
    for (const messages of sends) await transaction.send({ topic, messages: [...messages] })
    await transaction.commit()
  }
  const { system, user } = process.cpuUsage(before)
  const measured = { rows: records, seconds: (Date.now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 }
  await producer.disconnect()
  return measured
}

/** The service without integrations: it only publishes the existing log. */
const relay = async (brokers: ReadonlyArray<string>, file: string): Promise<Measurement> => {
  const service = new Process("bin/rollcall.js", ["start"], "stderr", {
    ...settings(file),
    ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
    KAFKA_BROKERS: brokers.join(),
    ROLLCALL_TOPIC: `bench-${randomUUID()}`
  })
  try {
    const started = await service.line(`"started"`)
    const { url }: { url: string } = JSON.parse(started.text)
    for (;;) {
      const metrics = await (await fetch(`${url}/metrics`)).text()
      if (Number(/^rollcall_relay_position (\S+)$/m.exec(metrics)?.[1]) === records) break
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    const seconds = (Date.now() - started.at) / 1000
    return { rows: records, seconds, cpuSeconds: service.cpuSeconds - started.cpuSeconds }
  } finally {
    await service.stop()
  }
}

/** Every record is one event, because nothing changes during the run. */
const run = (brokers: ReadonlyArray<string>) =>
  withBench(records, async ({ file, service }): Promise<Record<string, Measurement>> => {
    const filling = service()
    await filling.line("backfill complete")
    await filling.stop()
    return { "bare kafkajs": await floor(brokers, file), relay: await relay(brokers, file) }
  })

const results = await Effect.gen(function*() {
  const { brokers } = Context.get(yield* Layer.build(brokerLayer), Broker)
  const results: Array<Record<string, Measurement>> = []
  for (let i = 0; i < runs; i++) results.push(yield* Effect.promise(() => run(brokers)))
  return results
}).pipe(Effect.scoped, Effect.runPromise)
console.log(`${records.toLocaleString("en")} events of 3 KB, median of ${runs} runs, Node ${process.version}\n`)
console.log(compareWithFloor("bare kafkajs", "messages", results))
