/**
 * Publishes a log like the relay, with the least work: the messages are encoded before the time starts and sent in transactions of
 * the same size, by a bare producer.
 *
 * `node bench/programs/Produce.ts <broker,…> <topic> <SQLite file> <driver>`; prints a line of values, without the start of the process.
 */
import { Producer } from "@platformatic/kafka"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import kafkajs from "kafkajs"
import { builtInModels } from "../../src/domain/BuiltInModels.ts"
import { type KafkaMessage, makeEncoder } from "../../src/publish/kafka/KafkaMessage.ts"
import { splitIntoSends } from "../../src/publish/kafka/Sends.ts"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../src/store/Store.ts"

const [brokers, topic, file, driver] = process.argv.slice(2) as [string, string, string, string]
/** The relay's batch size, and the default limit of a topic's batches in bytes. */
const perTransaction = 500
const batchBytes = 1_048_588

/** The log, split into the transactions in which the relay sends it, and these into sends. */
const transactions = await Effect.gen(function*() {
  const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
  const transactions: Array<ReadonlyArray<ReadonlyArray<KafkaMessage>>> = []
  const encode = makeEncoder({
    identity: store.identity,
    models: builtInModels,
    topic,
    state: false,
    limitOf: () => batchBytes
  })
  for (let after = 0;;) {
    const entries = yield* store.readLog({ after, limit: perTransaction })
    if (entries.length === 0) return transactions
    const messages = entries.flatMap((entry) => encode(entry).messages)
    transactions.push(splitIntoSends(messages, () => batchBytes))
    after = entries.at(-1)!.position
  }
}).pipe(Effect.scoped, Effect.runPromise)

interface Bare<Message> {
  readonly messageOf: (message: KafkaMessage) => Message
  readonly send: (sends: ReadonlyArray<Array<Message>>) => Promise<void>
  readonly close: () => Promise<void>
}

const kafkajsProducer = async (): Promise<Bare<kafkajs.Message>> => {
  const producer = new kafkajs.Kafka({ brokers: brokers.split(","), logLevel: kafkajs.logLevel.NOTHING }).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    transactionalId: topic,
    retry: { initialRetryTime: 20 },
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner
  })
  await producer.connect()
  return {
    messageOf: ({ headers, key, value }) => ({ key, value, headers: { ...headers } }),
    send: async (sends) => {
      const transaction = await producer.transaction()
      for (const messages of sends) await transaction.send({ topic, messages })
      await transaction.commit()
    },
    close: () => producer.disconnect()
  }
}

interface PlatformaticMessage {
  readonly topic: string
  readonly key: Buffer
  readonly value: Buffer
  readonly headers: Map<Buffer, Buffer>
}

const platformaticProducer = async (): Promise<Bare<PlatformaticMessage>> => {
  const producer = new Producer({
    clientId: "bench",
    bootstrapBrokers: brokers.split(","),
    idempotent: true,
    transactionalId: topic,
    producerId: -1n,
    producerEpoch: -1,
    timeout: 45_000,
    retryDelay: 20
  })
  await producer.metadata({ topics: [topic] })
  return {
    messageOf: ({ headers, key, value }) => ({
      topic,
      key: Buffer.from(key),
      value: value ?? Buffer.alloc(0),
      headers: new Map(
        Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)])
      )
    }),
    send: async (sends) => {
      const transaction = await producer.beginTransaction()
      for (const messages of sends) await transaction.send({ messages })
      await transaction.commit()
    },
    close: () => producer.close()
  }
}

const run = async <Message>({ close, messageOf, send }: Bare<Message>) => {
  const prepared = transactions.map((sends) => sends.map((messages) => messages.map(messageOf)))
  const startedAt = Date.now()
  const before = process.cpuUsage()
  for (const sends of prepared) await send(sends)
  const { system, user } = process.cpuUsage(before)
  const records = prepared.flat(2).length
  console.log(JSON.stringify({ records, seconds: (Date.now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 }))
  await close()
}
await (driver === "platformatic" ? platformaticProducer().then(run) : kafkajsProducer().then(run))
