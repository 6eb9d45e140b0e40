/**
 * kafkajs, made safe: what of it is used, with its traps closed and its errors translated.
 *
 * Invariants
 * 1. One send in flight per producer, and its retries are not limited: time is.
 * 2. A producer that failed once, or whose connect failed, never sends again: it would re-use sequence numbers, or send
 *    without idempotence. Its scope ends and another one is made.
 *
 * Gotchas
 * - A second producer with the same transactional id fences the first from its first transaction on, not from `connect`.
 * - A send that was given up goes on inside kafkajs and reconnects by itself: its partitioner stops it.
 * - Without a short first retry the first message after each commit waits 300 ms.
 * - What kafkajs logs is repeated in the errors it throws: its log goes to our debug level.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import kafkajs from "kafkajs"
import { type BatchTooLarge, faultOf, isLoading } from "./KafkaFault.ts"
import type { KafkaMessage } from "./KafkaMessage.ts"
import { SinkError, Unreachable } from "./Sink.ts"

export interface KafkaConnection {
  /** `host:port` */
  readonly brokers: ReadonlyArray<string>
  readonly ssl: boolean
  readonly sasl?: {
    readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512"
    readonly username: string
    readonly password: Redacted.Redacted<string>
  } | undefined
}

export interface KafkaProducer {
  /** Sends one after the other; with transactions all become visible at once or none. Fails once, then use another. */
  readonly send: (
    sends: ReadonlyArray<ReadonlyArray<KafkaMessage>>
  ) => Effect.Effect<void, SinkError | BatchTooLarge>
}

export interface KafkaClient {
  readonly admin: <A>(doing: string, use: (admin: kafkajs.Admin) => Promise<A>) => Effect.Effect<A, SinkError>
  /** Idempotent; transactional when an id is given. */
  readonly producer: (transactionalId: string | null) => Effect.Effect<KafkaProducer, SinkError, Scope.Scope>
  /** Hands over a topic's committed messages from the oldest on, until `use` says that it has seen enough. */
  readonly read: (
    topic: string,
    groupId: string,
    use: (key: string | undefined, value: string | undefined) => "more" | "enough"
  ) => Effect.Effect<void, SinkError>
}

/** How long a send or a reading may take before the broker counts as away; shorter than a transaction may stay open. */
const patience = "30 seconds"
const transactionTimeout = 45_000
const disconnecting = "3 seconds"

const retry = { initialRetryTime: 50, maxRetryTime: 1000, factor: 0.2, multiplier: 2, retries: 7 }
const sendRetry = { ...retry, initialRetryTime: 20, retries: Number.MAX_SAFE_INTEGER }

const giveUp = (doing: string) =>
  Effect.timeoutOrElse({
    duration: patience,
    orElse: () =>
      Effect.fail(
        new SinkError({
          reason: new Unreachable({ message: `${doing}: no answer within ${patience}`, cause: new Error("timeout") })
        })
      )
  })

const attempt = <A>(doing: string, run: () => Promise<A>): Effect.Effect<A, SinkError | BatchTooLarge> =>
  giveUp(doing)(Effect.tryPromise({ try: run, catch: (error) => faultOf(doing, error) }))

/** Asks again, with a new client each time, while a broker that just came up is not ready. */
const patiently = <A>(effect: Effect.Effect<A, SinkError | BatchTooLarge>): Effect.Effect<A, SinkError> =>
  effect.pipe(
    Effect.retry({ while: isLoading, schedule: Schedule.spaced("250 millis"), times: 20 }),
    Effect.catchTag("BatchTooLarge", Effect.die)
  )

const leave = (client: { readonly disconnect: () => Promise<void> }): Effect.Effect<void> =>
  Effect.tryPromise(() => client.disconnect()).pipe(Effect.timeout(disconnecting), Effect.ignore)

const byTopic = (messages: ReadonlyArray<KafkaMessage>): Array<kafkajs.TopicMessages> =>
  Array.from(Map.groupBy(messages, (message) => message.topic), ([topic, messages]) => ({ topic, messages }))

/** Connects to nothing yet. */
export const make = Effect.fnUntraced(function*(connection: KafkaConnection): Effect.fn.Return<KafkaClient> {
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const { sasl } = connection
  const kafka = new kafkajs.Kafka({
    clientId: "rollcall",
    brokers: [...connection.brokers],
    ssl: connection.ssl,
    ...(sasl === undefined
      ? {}
      : { sasl: { ...sasl, password: Redacted.value(sasl.password) } as kafkajs.SASLOptions }),
    connectionTimeout: 3000,
    requestTimeout: 10_000,
    retry,
    logLevel: kafkajs.logLevel.WARN,
    logCreator: () => ({ namespace, log }) => {
      fork(Effect.annotateLogs(Effect.logDebug(log.message), "kafkajs", namespace))
    }
  })

  const admin: KafkaClient["admin"] = (doing, use) =>
    Effect.acquireUseRelease(
      Effect.sync(() => kafka.admin()),
      (admin) =>
        attempt(doing, async () => {
          await admin.connect()
          return await use(admin)
        }),
      leave
    ).pipe(patiently)

  const producer: KafkaClient["producer"] = Effect.fnUntraced(function*(transactionalId) {
    let usable = true
    const producer = yield* Effect.acquireRelease(
      Effect.sync(() =>
        kafka.producer({
          idempotent: true,
          maxInFlightRequests: 1,
          allowAutoTopicCreation: false,
          transactionTimeout,
          ...(transactionalId === null ? {} : { transactionalId }),
          retry: sendRetry,
          createPartitioner: () => {
            const partition = kafkajs.Partitioners.DefaultPartitioner()
            return (args) => {
              if (!usable) throw Object.assign(new Error("the producer was given up"), { retriable: false })
              return partition(args)
            }
          }
        })
      ),
      (producer) => {
        usable = false
        return leave(producer)
      }
    )
    yield* Effect.catchTag(
      attempt("connecting to Kafka", () => producer.connect()),
      "BatchTooLarge",
      Effect.die
    )
    return {
      send: (sends) =>
        attempt("publishing to Kafka", async () => {
          const transaction = transactionalId === null ? null : await producer.transaction()
          for (const messages of sends) await (transaction ?? producer).sendBatch({ topicMessages: byTopic(messages) })
          await transaction?.commit()
        })
    }
  })

  const read: KafkaClient["read"] = (topic, groupId, use) =>
    Effect.acquireUseRelease(
      Effect.sync(() => kafka.consumer({ groupId, allowAutoTopicCreation: false, maxWaitTimeInMs: 100, retry })),
      (consumer) =>
        attempt(`reading ${topic}`, async () => {
          await consumer.connect()
          await consumer.subscribe({ topics: [topic], fromBeginning: true })
          await new Promise<void>((resolve, reject) => {
            consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
            const eachMessage = async ({ message }: kafkajs.EachMessagePayload) => {
              if (use(message.key?.toString(), message.value?.toString()) === "enough") resolve()
            }
            consumer.run({ autoCommit: false, eachMessage }).catch(reject)
          })
        }),
      leave
    ).pipe(patiently)

  return { admin, producer, read }
})
