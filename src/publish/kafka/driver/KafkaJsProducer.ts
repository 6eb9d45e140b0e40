/**
 * The driver kafkajs.
 *
 * Gotchas
 * - After a timeout kafkajs continues the abandoned send and reconnects on its own. The partitioner stops it.
 * - A second producer with the same transactional id fences the first one when it starts a transaction, not at `connect`.
 * - Without a short first retry, the first message after each commit would wait 300 ms.
 * - Retries are limited by time, which `KafkaClient` does, and not by number.
 */
import type kafkajs from "kafkajs"
import { codecTypes } from "./Compression.ts"
import type { AppendedBatch, Login, Producer, ProducerOptions } from "./Driver.ts"

export const retry = { initialRetryTime: 50, maxRetryTime: 1000, factor: 0.2, multiplier: 2, retries: 7 }
const sendRetry = { ...retry, initialRetryTime: 20, retries: Number.MAX_SAFE_INTEGER }

const withLength = (bytes: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** kafkajs passes messages of its own providers on with the length before them. */
export const saslOf = (login: Login): NonNullable<kafkajs.KafkaConfig["sasl"]> =>
  login.mechanism !== "oauthbearer" ? login as kafkajs.SASLOptions : {
    mechanism: login.mechanism,
    authenticationProvider: ({ saslAuthenticate }) => ({
      authenticate: () =>
        login.logIn((message) =>
          saslAuthenticate({
            request: { encode: () => withLength(message) },
            response: { decode: (bytes) => bytes, parse: (bytes: Buffer) => bytes }
          }) as Promise<Buffer>
        )
    })
  }

/** The offset may be missing: a broker that recognizes a repeated batch may no longer know where it started. */
const appendedBatches = (
  { baseOffset, partition, topicName }: kafkajs.RecordMetadata
): ReadonlyArray<AppendedBatch> => {
  const offset = Number(baseOffset ?? -1)
  return offset < 0 ? [] : [{ topic: topicName, partition, offset }]
}

export const make = (
  kafka: kafkajs.Kafka,
  { codec, transactionTimeout, transactionalId }: ProducerOptions
): Producer => {
  let isOpen = true
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    transactionTimeout,
    ...(transactionalId === null ? {} : { transactionalId }),
    retry: sendRetry,
    createPartitioner: () => ({ message }) => {
      if (!isOpen) throw Object.assign(new Error("the producer was closed"), { retriable: false })
      return message.partition ?? 0
    }
  })
  return {
    connect: () => producer.connect(),
    begin: async () => {
      const transaction = transactionalId === null ? null : await producer.transaction()
      return {
        send: async (messages) => {
          const byTopic = Map.groupBy(messages, ({ topic }) => topic)
          const topicMessages = Array.from(byTopic, ([topic, messages]) => ({ topic, messages }))
          const sent = await (transaction ?? producer).sendBatch({ compression: codecTypes[codec], topicMessages })
          return sent.flatMap(appendedBatches)
        },
        commit: async () => transaction?.commit(),
        abort: async () => transaction?.abort()
      }
    },
    close: () => {
      isOpen = false
      return producer.disconnect()
    }
  }
}
