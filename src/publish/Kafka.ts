/**
 * The sink that publishes to Kafka: one transaction per batch, which also writes down how far it came.
 *
 * Invariants
 * 1. Events and the control record `{store, lineage, position, eventId}` become visible together: readers with
 *    `read_committed` see each event once, whenever we die   (X4)
 * 2. After `open` an older publisher of this store cannot commit   (I10, X15)
 * 3. An event too large for its topic is replaced by a stub; the stream goes on   (K1)
 *
 * Gotchas
 * - `open` learns the newest control record by writing a marker behind it and reading up to that marker: offsets would
 *   not do, commit markers and aborted messages occupy them too.
 * - Who died inside its last send keeps readers of the control topic waiting until the broker ends its transaction: its
 *   own next `open` does that at once, other stores on the same broker wait for it, at most 45 seconds.
 * - Without transactions nothing fences at the broker, and a batch of which the answer was lost is published again with
 *   the same event ids.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as ScopedRef from "effect/ScopedRef"
import * as Semaphore from "effect/Semaphore"
import { randomUUID } from "node:crypto"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"
import { type KafkaConnection, type KafkaProducer, make as makeClient } from "./KafkaClient.ts"
import { inSends, type KafkaMessage, messagesOf, stateTopicOf, templateFault, topicOf } from "./KafkaMessage.ts"
import { ensure, type KafkaTopic, missing } from "./KafkaTopics.ts"
import { type Published, type Reached, Refused, Sink, SinkError, Unreachable } from "./Sink.ts"

export interface KafkaOptions extends KafkaConnection {
  /** Template of topic names with `{model}` and `{integration}`; `rollcall.{model}` unless told otherwise. */
  readonly topic: string
  /** Whether each record's latest content also goes to a compacted topic, `<topic>.state`, null once it is deleted. */
  readonly state?: boolean
  /** `false` for brokers without transactions: then events can appear twice, with the same id. */
  readonly transactions: boolean
  /** Streams whose topics are made or checked by `open`; those of others are when their first event comes. */
  readonly streams?: ReadonlyArray<StreamKey>
}

export const controlTopic = "rollcall.relay"
const eventPartitions = 6
/** Small segments: only what is not in the newest one is compacted, and `open` reads all that is left. */
const control: KafkaTopic = {
  name: controlTopic,
  keeps: "latest",
  partitions: 1,
  settings: { "segment.bytes": "1048576", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.01" }
}

const ControlRecord = Schema.fromJsonString(
  Schema.Struct({ store: Schema.String, lineage: Schema.Int, position: Schema.Int, eventId: Schema.String })
)
const encodeControl = Schema.encodeSync(ControlRecord)
const decodeControl = Schema.decodeUnknownOption(ControlRecord)

const controlMessage = (key: string, value: string): KafkaMessage => ({
  topic: controlTopic,
  key,
  value: Buffer.from(value),
  headers: { "content-type": "application/json" },
  partition: 0
})

const stubs = Metric.counter("rollcall_relay_stubs_total", {
  description: "Events too large for the sink, published as stubs that point at the event log",
  incremental: true
})

/** What lives from one `open` to the next, or to the first failure. */
interface Session {
  readonly producer: KafkaProducer
  /** Largest batch in bytes of every topic met. */
  readonly limits: Map<string, number>
}

const refused = (message: string, hint: string) => new SinkError({ reason: new Refused({ message, hint }) })
const notOpen = new SinkError({
  reason: new Unreachable({ message: "publishing to Kafka: the producer failed before", cause: null })
})

const topicsOf = (options: KafkaOptions, stream: StreamKey): ReadonlyArray<KafkaTopic> => [
  { name: topicOf(options.topic, stream), keeps: "log", partitions: eventPartitions },
  ...(options.state === true
    ? [{ name: stateTopicOf(options.topic, stream), keeps: "latest", partitions: eventPartitions } as const]
    : [])
]
/** Those that must be there before anything is published. */
const neededBy = (options: KafkaOptions) => [
  control,
  ...(options.streams ?? []).flatMap((stream) => topicsOf(options, stream))
]

const make = Effect.fnUntraced(function*(options: KafkaOptions) {
  const fault = templateFault(options.topic)
  if (fault !== null) return yield* refused(fault, "correct ROLLCALL_TOPIC, for example rollcall.{model}.")
  if (!options.transactions) {
    yield* Effect.logWarning(
      "publishing without Kafka transactions: after a failure events can appear twice, with the same id"
    )
  }
  const client = yield* makeClient(options)
  const session = yield* ScopedRef.make((): Session | null => null)
  const turn = yield* Semaphore.make(1)
  const close = ScopedRef.set(session, Effect.succeed(null))
  /** Lowered when a broker refuses what its configuration promised. */
  let ceiling = Number.POSITIVE_INFINITY

  const meet = Effect.fnUntraced(function*(limits: Map<string, number>, topics: Iterable<KafkaTopic>) {
    const unmet = new Map<string, KafkaTopic>()
    for (const topic of topics) if (!limits.has(topic.name)) unmet.set(topic.name, topic)
    for (const [name, bytes] of yield* ensure(client, [...unmet.values()])) limits.set(name, bytes)
  })

  /** Any failure, and an interruption in the middle, leaves the producer in an unknown state: it is thrown away. */
  const send = (producer: KafkaProducer, sends: ReadonlyArray<ReadonlyArray<KafkaMessage>>) =>
    producer.send(sends).pipe(
      Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : close),
      Effect.catchTag("BatchTooLarge", () => {
        ceiling = Math.max(16_384, Math.min(ceiling, 1_048_588) / 2)
        return new SinkError({
          reason: new Unreachable({
            message: `publishing to Kafka: the broker refused a batch as too large, trying ${ceiling} bytes`,
            cause: null
          })
        })
      })
    )

  const lastPublished = Effect.fnUntraced(function*(identity: LogIdentity, marker: string) {
    let found: string | undefined
    yield* client.read(controlTopic, `rollcall-relay-${identity.store}-${marker}`, (key, value) => {
      if (key === identity.store) found = value
      return value === marker ? "enough" : "more"
    })
    if (found === undefined) return null
    return yield* Option.match(decodeControl(found), {
      onNone: () =>
        refused(
          `the newest record of ${identity.store} on ${controlTopic} is none that Rollcall wrote`,
          `find out who else writes to ${controlTopic}.`
        ),
      onSome: (record) => Effect.succeed(record)
    })
  })

  const open = Effect.fn("Kafka.open")(function*(identity: LogIdentity): Effect.fn.Return<Published | null, SinkError> {
    yield* close
    const limits = new Map<string, number>()
    yield* meet(limits, neededBy(options))
    const transactionalId = options.transactions ? `rollcall-relay-${identity.store}` : null
    yield* ScopedRef.set(
      session,
      Effect.map(Effect.interruptible(client.producer(transactionalId)), (producer): Session => ({ producer, limits }))
    )
    const { producer } = (yield* ScopedRef.get(session)) ?? (yield* notOpen)
    const marker = randomUUID()
    yield* send(producer, [[controlMessage(`${identity.store}/opened`, marker)]])
    return yield* lastPublished(identity, marker)
  })

  const publish = Effect.fn("Kafka.publish")(function*(
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached: Reached | undefined = batch.at(-1)
  ): Effect.fn.Return<void, SinkError> {
    if (reached === undefined) return
    const { producer, limits } = (yield* ScopedRef.get(session)) ?? (yield* notOpen)
    yield* meet(limits, batch.flatMap((entry) => topicsOf(options, entry)))
    const limitOf = (topic: string) => Math.min(ceiling, limits.get(topic) ?? ceiling)

    const encoded = batch.map((entry) =>
      messagesOf({ identity, topic: options.topic, state: options.state === true, limitOf }, entry)
    )
    const messages = encoded.flatMap((one) => one.messages)
    const { position, eventId } = reached
    const record = controlMessage(identity.store, encodeControl({ ...identity, position, eventId }))
    // Without transactions the record must not be durable before the events are: it goes on its own, last.
    yield* send(
      producer,
      options.transactions ? inSends([...messages, record], limitOf) : [...inSends(messages, limitOf), [record]]
    )

    const stubbed = encoded.filter((one) => one.stubbed).length
    if (stubbed > 0) yield* Metric.update(stubs, stubbed)
  })

  return Sink.of({
    open: (identity) => turn.withPermit(open(identity)),
    publish: (identity, batch, reached) => turn.withPermit(publish(identity, batch, reached))
  })
})

/** What a broker has of the topics that are needed, and lacks. Nothing is made or written; fails as `open` would. */
export const examine = Effect.fn("Kafka.examine")(function*(options: KafkaOptions) {
  const client = yield* makeClient(options)
  const topics = new Map(neededBy(options).map((topic) => [topic.name, topic]))
  return yield* missing(client, [...topics.values()])
})

/** Connects with the first `open`; fails at once only for options that can never work. */
export const layer = (options: KafkaOptions): Layer.Layer<Sink, SinkError> => Layer.effect(Sink, make(options))
