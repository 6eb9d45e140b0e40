/**
 * A safe wrapper of kafkajs and of the driver that sends. It has only the operations that Rollcall uses, works around pitfalls and
 * translates errors.
 *
 * Invariants
 * 1. A producer has one send in flight. Its retries are limited by time, not by number
 * 2. A producer that failed once, or failed to connect, never sends again: it would reuse sequence numbers, or send without
 *    idempotence. Its scope ends and a new producer is created
 *
 * Gotchas
 * - Messages are read with kafkajs, whichever driver sends. All producers of the relay have the same id, and a response may contain several
 *   aborted transactions of one producer. @platformatic/kafka skips only the last of them.
 * - A reader may never receive the message at the end offset of a topic, because commit markers and aborted messages have
 *   offsets too. kafkajs reports the offsets that it skips.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import kafkajs from "kafkajs"
import { SinkError, Unreachable, unreachable } from "../Sink.ts"
import type { AppendedBatch, PlacedMessage, Producer, Transaction } from "./driver/Driver.ts"
import { retry } from "./driver/KafkaJsProducer.ts"
import { partitionOf } from "./driver/Partitions.ts"
import { type KafkaConnection, make as makeConnector } from "./KafkaConnection.ts"
import { isBrokerStarting, isConnectionClosed, notBegun, toSinkError } from "./KafkaErrors.ts"
import type { KafkaMessage, ReceivedMessage } from "./KafkaMessage.ts"
import { adviseProtocol } from "./KafkaTls.ts"

/** Returns the number of partitions over which a topic's keys are spread. */
export type KeyedPartitions = (topic: string) => number

type Sends = ReadonlyArray<ReadonlyArray<KafkaMessage>>

/** A batch with the positions of its events, in order; empty for other messages. */
export interface PlacedBatch extends AppendedBatch {
  readonly positions: ReadonlyArray<number>
}

export interface KafkaProducer {
  /**
   * Sends the batches in sequence; with transactions either all become visible together or none. `closing` receives the
   * offsets and returns the final batches, or an error that aborts the transaction. After a failure, use a new producer.
   */
  readonly send: (
    sends: Sends,
    closing?: (appended: ReadonlyArray<PlacedBatch>) => Sends | SinkError
  ) => Effect.Effect<void, SinkError>
}

export interface KafkaClient {
  readonly admin: <A>(doing: string, use: (admin: kafkajs.Admin) => Promise<A>) => Effect.Effect<A, SinkError>
  /** An idempotent producer, transactional if an id is given. */
  readonly producer: (
    transactionalId: string | null,
    keys: KeyedPartitions
  ) => Effect.Effect<KafkaProducer, SinkError, Scope.Scope>
  /**
   * Passes every committed message that the topic holds at the call to `use`, each partition from the oldest on, and waits
   * for each call to finish.
   */
  readonly scan: <E>(
    topic: string,
    groupId: string,
    use: (messages: ReadonlyArray<ReceivedMessage>) => Effect.Effect<void, E>
  ) => Effect.Effect<void, SinkError | E>
}

/** After this time without a response the broker is considered unavailable; shorter than a transaction may stay open. */
export const operationTimeout = Duration.seconds(30)
const noResponse = `no response within ${Duration.toSeconds(operationTimeout)} seconds`
const transactionTimeout = 45_000
const disconnectTimeout = "3 seconds"

const callKafka = <A>(doing: string, run: () => Promise<A>): Effect.Effect<A, SinkError> =>
  Effect.tryPromise({ try: run, catch: (error) => toSinkError(doing, error) })
const callWithTimeout = <A>(doing: string, run: () => Promise<A>, advice?: string): Effect.Effect<A, SinkError> =>
  Effect.timeoutOrElse(callKafka(doing, run), {
    duration: operationTimeout,
    orElse: () => Effect.fail(unreachable(`${doing}: ${noResponse}`, new Error("timeout"), advice))
  })

/** Begins what is sent together. */
export const begin = (
  producer: Pick<Producer, "begin">,
  transactionalId: string | null
): Effect.Effect<Transaction, SinkError> =>
  callWithTimeout("publishing to Kafka", producer.begin, transactionalId === null ? undefined : notBegun)

/** Retries, with a new client each time, while a broker that just started is not ready. */
const retryWhileStarting = <A>(effect: Effect.Effect<A, SinkError>): Effect.Effect<A, SinkError> =>
  Effect.retry(effect, { while: isBrokerStarting, schedule: Schedule.spaced("250 millis"), times: 20 })

/** Adds advice to the error if connections are closed because of the protocol (TLS or plaintext). */
const withTlsAdvice =
  ({ brokers, ssl }: KafkaConnection) => <A>(effect: Effect.Effect<A, SinkError>): Effect.Effect<A, SinkError> =>
    Effect.catchReason(effect, "SinkError", "Unreachable", (reason, error) =>
      Effect.gen(function*() {
        if (!isConnectionClosed(reason)) return yield* error
        const advice = yield* adviseProtocol(brokers[0] ?? "", ssl !== false)
        if (advice === null) return yield* error
        return yield* new SinkError({
          reason: new Unreachable({ message: reason.message, cause: reason.cause, advice })
        })
      }))

const disconnect = (client: { readonly disconnect: () => Promise<void> }): Effect.Effect<void> =>
  Effect.tryPromise(() => client.disconnect()).pipe(Effect.timeout(disconnectTimeout), Effect.ignore)

type Placed = PlacedMessage & Pick<KafkaMessage, "position">

/** The messages with their partitions. */
const placed = (messages: ReadonlyArray<KafkaMessage>, keys: KeyedPartitions): ReadonlyArray<Placed> =>
  messages.map((message) => ({
    ...message,
    partition: message.partition ?? partitionOf(message.key, keys(message.topic))
  }))

/** Each send is one record batch per partition, with the messages in their order. */
const withPositions = (
  batches: ReadonlyArray<AppendedBatch>,
  messages: ReadonlyArray<Placed>
): ReadonlyArray<PlacedBatch> => {
  const sent = new Map<string, Array<Array<number> | undefined>>()
  for (const { partition, position, topic } of messages) {
    if (position === undefined) continue
    let ofTopic = sent.get(topic)
    if (ofTopic === undefined) sent.set(topic, ofTopic = [])
    ;(ofTopic[partition] ??= []).push(position)
  }
  return batches.map((batch) => ({ ...batch, positions: sent.get(batch.topic)?.[batch.partition] ?? [] }))
}

const received = (partition: number, { headers, key, value }: kafkajs.KafkaMessage): ReceivedMessage => ({
  partition,
  key: key?.toString(),
  value: value?.toString(),
  header: (name) => headers?.[name]?.toString()
})

/** Makes a client that is not connected yet. */
export const make = Effect.fnUntraced(function*(connection: KafkaConnection): Effect.fn.Return<KafkaClient> {
  const run = Effect.runPromiseExitWith(yield* Effect.context<never>())
  const connect = yield* makeConnector(connection)
  const advised = withTlsAdvice(connection)

  const admin: KafkaClient["admin"] = (doing, use) =>
    Effect.flatMap(connect, ({ explain, kafka }) =>
      Effect.acquireUseRelease(
        Effect.sync(() => kafka.admin()),
        (admin) =>
          Effect.mapError(
            callWithTimeout(doing, async () => {
              await admin.connect()
              return await use(admin)
            }),
            explain
          ),
        disconnect
      )).pipe(retryWhileStarting, advised)

  const producer: KafkaClient["producer"] = Effect.fnUntraced(function*(transactionalId, keys) {
    const { explain, producer: makeProducer } = yield* connect
    const call = <A>(doing: string, run: () => Promise<A>) => Effect.mapError(callWithTimeout(doing, run), explain)
    const producer = yield* Effect.acquireRelease(
      Effect.promise(() => makeProducer({ transactionalId, transactionTimeout })),
      (producer) => disconnect({ disconnect: producer.close })
    )
    yield* advised(call("connecting to Kafka", producer.connect))
    return {
      send: (sends, closing = () => []) =>
        begin(producer, transactionalId).pipe(
          Effect.mapError(explain),
          Effect.flatMap((transaction) =>
            call("publishing to Kafka", async () => {
              const appended: Array<PlacedBatch> = []
              const sendAll = async (sends: Sends) => {
                for (const messages of sends) {
                  const own = placed(messages, keys)
                  appended.push(...withPositions(await transaction.send(own), own))
                }
              }
              await sendAll(sends)
              const last = closing(appended)
              if (last instanceof SinkError) {
                await transaction.abort()
                return last
              }
              await sendAll(last)
              await transaction.commit()
              return null
            })
          ),
          Effect.flatMap((error) => error === null ? Effect.void : Effect.fail(error))
        )
    }
  })

  const scan = <E>(
    topic: string,
    groupId: string,
    use: (messages: ReadonlyArray<ReceivedMessage>) => Effect.Effect<void, E>
  ): Effect.Effect<void, SinkError | E> =>
    Effect.gen(function*() {
      const doing = `reading ${topic}`
      const ends = yield* admin(doing, (admin) => admin.fetchTopicOffsets(topic))
      const remaining = new Map(
        ends.flatMap(({ high, low, partition }) => high === low ? [] : [[partition, BigInt(high) - 1n] as const])
      )
      if (remaining.size === 0) return
      let outcome: Exit.Exit<void, E> = Exit.void
      const consumeAll = (consumer: kafkajs.Consumer) =>
        callKafka(doing, () =>
          new Promise<void>((resolve, reject) => {
            const silence = setTimeout(() => reject(new Error(noResponse)), Duration.toMillis(operationTimeout))
            const end = (settle: () => void) => {
              clearTimeout(silence)
              settle()
            }
            consumer.on(consumer.events.CRASH, ({ payload }) => end(() => reject(payload.error)))
            consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload: { lastOffset, partition } }) => {
              silence.refresh()
              const last = remaining.get(partition)
              if (last !== undefined && BigInt(lastOffset) >= last) remaining.delete(partition)
              if (remaining.size === 0) end(resolve)
            })
            const eachBatch = async ({ batch }: kafkajs.EachBatchPayload) => {
              if (remaining.size === 0 || Exit.isFailure(outcome)) return
              outcome = await run(use(batch.messages.map((message) => received(batch.partition, message))))
              if (Exit.isFailure(outcome)) end(resolve)
            }
            consumer.connect()
              .then(() => consumer.subscribe({ topics: [topic], fromBeginning: true }))
              .then(() => consumer.run({ autoCommit: false, eachBatch }))
              .catch((error) => end(() => reject(error)))
          }))
      yield* Effect.flatMap(connect, ({ explain, kafka }) =>
        Effect.acquireUseRelease(
          Effect.sync(() => kafka.consumer({ groupId, allowAutoTopicCreation: false, maxWaitTimeInMs: 100, retry })),
          (consumer) => Effect.mapError(consumeAll(consumer), explain),
          disconnect
        )).pipe(retryWhileStarting)
      yield* outcome
    })

  return { admin, producer, scan }
})
