/**
 * The driver @platformatic/kafka. Connections, transactions and retries are those of the library. Record batches are encoded here, which
 * takes a fraction of the library's time.
 *
 * Invariants
 * 1. A batch that is sent again because its response was lost has the same sequence numbers, so the broker appends it once
 *
 * Gotchas
 * - Without `producerId: -1n`, a process that starts again with the same transactional id is fenced.
 * - `timeout` is the broker's time to respond to a send, and also how long a transaction may stay open.
 * - From version 4 on, the request AddPartitionsToTxn is for brokers, and needs the permission of one. The library would use it.
 * - The library may emit two errors of one connection, and removes its listener with the first. An error event without a listener ends
 *   the process.
 * - Retries are limited by time, which `KafkaClient` does, and not by number. After `close` there are none.
 */
import * as Library from "@platformatic/kafka"
import {
  clientId,
  type Endpoint,
  type Login,
  type PlacedMessage,
  type Producer,
  type ProducerOptions,
  timeouts
} from "./Driver.ts"
import { encodeBatch } from "./RecordBatch.ts"

/** The library's message. Its value is our message, which only our encoding reads. */
type LibraryMessage = Library.MessageToProduce<Buffer, PlacedMessage, Buffer, Buffer>

/** The arguments of the function that sends a request of the kind Produce. */
type ProduceArguments = [
  acks: number,
  timeout: number,
  messages: ReadonlyArray<{ readonly value: PlacedMessage; readonly partition: number }>,
  options: {
    readonly producerId: bigint
    readonly producerEpoch: number
    readonly sequences: ReadonlyMap<string, number>
    readonly transactionalId?: string
  }
]
type ProduceResponse = ReturnType<typeof Library.produceV9.parseResponse>
type Produce = Library.API<ProduceArguments, ProduceResponse>

const produceKey = 0
/** The versions with the encoding that is written here; brokers since Kafka 2.4 have the first of them. */
const parsers: Readonly<Record<number, typeof Library.produceV9.parseResponse>> = {
  9: Library.produceV9.parseResponse,
  10: Library.produceV10.parseResponse,
  11: Library.produceV11.parseResponse
}

const encodeRequest = async (
  codec: ProducerOptions["codec"],
  [acks, timeout, messages, { producerEpoch, producerId, sequences, transactionalId }]: ProduceArguments
): Promise<Library.Writer> => {
  const timestamp = Date.now()
  const topics = Map.groupBy(messages, ({ value }) => value.topic)
  const request = Library.Writer.create()
    .appendString(transactionalId ?? null).appendInt16(acks).appendInt32(timeout).appendUnsignedVarInt(topics.size + 1)
  for (const [topic, ofTopic] of topics) {
    const partitions = Map.groupBy(ofTopic, ({ partition }) => partition)
    request.appendString(topic).appendUnsignedVarInt(partitions.size + 1)
    for (const [partition, own] of partitions) {
      const batch = await encodeBatch(own.map(({ value }) => value), {
        codec,
        producerId,
        producerEpoch,
        firstSequence: sequences.get(`${topic}:${partition}`) ?? 0,
        isTransactional: transactionalId !== undefined,
        timestamp
      })
      request.appendInt32(partition).appendUnsignedVarInt(batch.length + 1).append(batch).appendTaggedFields()
    }
    request.appendTaggedFields()
  }
  return request.appendTaggedFields()
}

const produceWith = (codec: ProducerOptions["codec"], version: number): Produce => {
  const parse = parsers[version]!
  const send = (connection: Library.Connection, ...all: Array<unknown>) => {
    const callback = all.pop() as Library.Callback<ProduceResponse>
    const request = () => encodeRequest(codec, all as ProduceArguments)
    connection.send(produceKey, version, request, parse, true, true, callback)
  }
  return Object.assign(send, { key: produceKey, version, async: undefined as never }) as unknown as Produce
}

class EncodingProducer extends Library.Producer<Buffer, PlacedMessage, Buffer, Buffer> {
  readonly #codec: ProducerOptions["codec"]
  #produce: Produce | null = null

  constructor(
    codec: ProducerOptions["codec"],
    options: Library.ProducerOptions<Buffer, PlacedMessage, Buffer, Buffer>
  ) {
    super(options)
    this.#codec = codec
  }

  /** The library asks for the function that sends each kind of request, in the newest version that both sides know. */
  override [Library.kGetApi]<Arguments extends Array<unknown>, Response>(
    name: string,
    callback: Library.Callback<Library.API<Arguments, Response>>
  ): void {
    const found = (api: unknown) => callback(null, api as Library.API<Arguments, Response>)
    super[Library.kGetApi]<Arguments, Response>(name, (error, api) => {
      if (error !== null || api === undefined) return callback(error)
      if (name === "AddPartitionsToTxn") return found(Library.addPartitionsToTxnV3.api)
      if (name !== "Produce") return callback(null, api)
      if (!(api.version in parsers)) return callback(new Library.UnsupportedApiError(`Produce version ${api.version}`))
      found(this.#produce ??= produceWith(this.#codec, api.version))
    })
  }
}

type SaslAnswer = ReturnType<typeof Library.saslAuthenticateV2.parseResponse>

const saslOf = (login: Login): Library.SASLOptions => {
  if (login.mechanism !== "oauthbearer") {
    const mechanism = login.mechanism.toUpperCase() as Library.SASLMechanismValue
    return { mechanism, username: login.username, password: login.password }
  }
  return {
    mechanism: "OAUTHBEARER",
    authenticate: (_mechanism, connection, request, _username, _password, _token, callback) => {
      let answer: SaslAnswer | undefined
      login.logIn((message) =>
        new Promise((resolve, reject) => {
          request(connection, message, (error, response) => {
            if (error !== null || response === undefined) return reject(error)
            answer = response
            resolve(response.authBytes)
          })
        })
      ).then(() => callback(null, answer), (error: Error) => callback(error))
    }
  }
}

/** Milliseconds until the next attempt. */
const retryDelay = (attempt: number): number => Math.min(1000, 20 * 2 ** Math.min(attempt, 10))

export const make = (
  { brokers, login, tls }: Endpoint,
  { codec, transactionTimeout, transactionalId }: ProducerOptions
): Producer => {
  const producer = new EncodingProducer(codec, {
    clientId,
    bootstrapBrokers: [...brokers],
    idempotent: true,
    producerId: -1n,
    producerEpoch: -1,
    ...(transactionalId === null ? {} : { transactionalId }),
    timeout: transactionTimeout,
    connectTimeout: timeouts.connect,
    requestTimeout: timeouts.request,
    retries: Number.MAX_SAFE_INTEGER,
    retryDelay: (_client, _operation, attempt) => retryDelay(attempt),
    metadataMaxAge: 60_000,
    ...(tls === false ? {} : { tls }),
    ...(login === null ? {} : { sasl: saslOf(login) })
  })
  producer.connections.on("connecting", ({ connection }) => connection.on("error", () => {}))
  const librarySends = (messages: ReadonlyArray<PlacedMessage>): Array<LibraryMessage> =>
    messages.map((value) => ({ topic: value.topic, partition: value.partition, value }))
  const appended = ({ offsets = [] }: Library.ProduceResult) =>
    offsets.flatMap(({ offset, partition, topic }) => offset < 0n ? [] : [{ topic, partition, offset: Number(offset) }])
  return {
    connect: async () => {
      await producer.metadata({ topics: [] })
    },
    begin: async () => {
      const transaction = transactionalId === null ? null : await producer.beginTransaction()
      return {
        send: async (messages) => appended(await (transaction ?? producer).send({ messages: librarySends(messages) })),
        commit: async () => transaction?.commit(),
        abort: async () => transaction?.abort()
      }
    },
    close: () => producer.close(true)
  }
}
