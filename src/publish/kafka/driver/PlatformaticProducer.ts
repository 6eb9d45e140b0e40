/**
 * The driver @platformatic/kafka.
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
import { clientId, type Endpoint, type Login, type Producer, type ProducerOptions, timeouts } from "./Driver.ts"

/** Uses a request of clients where the library would use one of brokers. No option of the library does that. */
class ClientProducer extends Library.Producer<string, Buffer | null, string, string> {
  override [Library.kGetApi]<Arguments extends Array<unknown>, Response>(
    name: string,
    callback: Library.Callback<Library.API<Arguments, Response>>
  ): void {
    super[Library.kGetApi]<Arguments, Response>(name, (error, api) => {
      const isOfBrokers = error === null && name === "AddPartitionsToTxn"
      const used: unknown = isOfBrokers ? Library.addPartitionsToTxnV3.api : api
      callback(error, used as typeof api)
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
  const producer = new ClientProducer({
    clientId,
    bootstrapBrokers: [...brokers],
    serializers: { ...Library.stringSerializers, value: (value) => value ?? undefined },
    compression: codec,
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
  const appended = ({ offsets = [] }: Library.ProduceResult) =>
    offsets.flatMap(({ offset, partition, topic }) => offset < 0n ? [] : [{ topic, partition, offset: Number(offset) }])
  return {
    connect: async () => {
      await producer.metadata({ topics: [] })
    },
    begin: async () => {
      const transaction = transactionalId === null ? null : await producer.beginTransaction()
      return {
        send: async (messages) => appended(await (transaction ?? producer).send({ messages: [...messages] })),
        commit: async () => transaction?.commit(),
        abort: async () => transaction?.abort()
      }
    },
    close: () => producer.close(true)
  }
}
