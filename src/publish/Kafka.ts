/**
 * The sink that publishes to Kafka: one transaction per batch, which also writes down how far it came.
 *
 * Invariants
 * 1. Events and the control record `{store, lineage, position, chain}` become visible together: readers with
 *    `read_committed` see each event once, whenever we die   (X4)
 * 2. After `open` an older publisher of this store cannot commit   (I10, X15)
 * 3. The events of a record stay in one partition when partitions are added to its topic   (I5, K2)
 * 4. An event too large for its topic is replaced by a stub; the stream goes on   (K1)
 *
 * Gotchas
 * - Without transactions nothing fences at the broker, and a batch of which the answer was lost is published again with
 *   the same event ids.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as ScopedRef from "effect/ScopedRef"
import * as Semaphore from "effect/Semaphore"
import { randomUUID } from "node:crypto"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"
import { type KafkaConnection, type KafkaProducer, make as makeClient } from "./KafkaClient.ts"
import * as Control from "./KafkaControl.ts"
import {
  inSends,
  type KafkaMessage,
  messagesOf,
  progressMessage,
  progressTopic,
  recordOf,
  stateRemoval,
  stateTopicOf,
  templateFault,
  topicOf
} from "./KafkaMessage.ts"
import { ensure, type KafkaTopic, look, type TopicFacts } from "./KafkaTopics.ts"
import { type Published, type Reached, reachedBy, Refused, Sink, SinkError, Unreachable } from "./Sink.ts"

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

const eventPartitions = 6
const progress: KafkaTopic = { name: progressTopic, keeps: "latest", partitions: 1 }

const stubs = Metric.counter("rollcall_relay_stubs_total", {
  description: "Events too large for the sink, published as stubs that point at the event log",
  incremental: true
})

/** What lives from one `open` to the next, or to the first failure. */
interface Session {
  readonly producer: KafkaProducer
  /** Every topic met. */
  readonly topics: Map<string, TopicFacts>
  /** Over how many partitions of each the keys are spread. */
  readonly spread: Map<string, number>
  /** Whether the broker has yet to remember that. */
  spreadIsNews: boolean
  /** Topics that have more partitions than are used: how many, and whether that was told. */
  readonly widened: Map<string, { readonly partitions: number; readonly told: boolean }>
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
const neededBy = (options: KafkaOptions): ReadonlyArray<KafkaTopic> => {
  const topics = [Control.control, progress, ...(options.streams ?? []).flatMap((stream) => topicsOf(options, stream))]
  return [...new Map(topics.map((topic) => [topic.name, topic])).values()]
}

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

  const acquaint = (session: Session, topics: ReadonlyMap<string, TopicFacts>) => {
    for (const [name, facts] of topics) {
      session.topics.set(name, facts)
      const used = session.spread.get(name)
      if (used !== undefined && used <= facts.partitions) continue
      session.spread.set(name, facts.partitions)
      session.spreadIsNews = true
    }
  }

  const meet = Effect.fnUntraced(function*(session: Session, topics: Iterable<KafkaTopic>) {
    const unmet = new Map<string, KafkaTopic>()
    for (const topic of topics) if (!session.topics.has(topic.name)) unmet.set(topic.name, topic)
    acquaint(session, yield* ensure(client, [...unmet.values()]))
  })

  const tellWidened = Effect.fnUntraced(function*({ spread, widened }: Session) {
    for (const [topic, { partitions, told }] of widened) {
      if (told) continue
      widened.set(topic, { partitions, told: true })
      yield* Effect.logWarning(
        `topic ${topic} has ${partitions} partitions; events go to ${spread.get(topic)} of them as before, so that ` +
          "those of a record stay in order. `rollcall store adopt` publishes everything anew, over all of them"
      )
    }
  })

  const limitOf = ({ topics }: Session) => (topic: string) =>
    Math.min(ceiling, topics.get(topic)?.batchBytes ?? ceiling)

  /** Any failure, and an interruption in the middle, leaves the producer in an unknown state: it is thrown away. */
  const sendWith = (producer: KafkaProducer, sends: ReadonlyArray<ReadonlyArray<KafkaMessage>>) =>
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

  /** Without transactions `last` must not be durable before the others are: it goes on its own. */
  const send = Effect.fnUntraced(function*(
    identity: LogIdentity,
    session: Session,
    messages: ReadonlyArray<KafkaMessage>,
    last?: KafkaMessage
  ) {
    const first = session.spreadIsNews ? [Control.spreadOver(identity, session.spread)] : []
    const closing = last === undefined ? [] : [last]
    const fitting = (some: ReadonlyArray<KafkaMessage>) => inSends(some, limitOf(session))
    yield* sendWith(
      session.producer,
      options.transactions
        ? fitting([...first, ...messages, ...closing])
        : [...fitting(first), ...fitting(messages), ...fitting(closing)]
    )
    session.spreadIsNews = false
    yield* tellWidened(session)
  })

  const current = Effect.flatMap(
    ScopedRef.get(session),
    (session): Effect.Effect<Session, SinkError> => session === null ? Effect.fail(notOpen) : Effect.succeed(session)
  )

  const begin = Effect.fnUntraced(function*(transactionalId: string | null) {
    const spread: Session["spread"] = new Map()
    const widened: Session["widened"] = new Map()
    const keys = (topic: string, partitions: number) => {
      const used = spread.get(topic) ?? partitions
      if (used < partitions && !widened.has(topic)) widened.set(topic, { partitions, told: false })
      return used
    }
    const producer = yield* Effect.interruptible(client.producer(transactionalId, keys))
    const begun: Session = { producer, topics: new Map(), spread, spreadIsNews: false, widened }
    return begun
  })

  const open = Effect.fn("Kafka.open")(function*(identity: LogIdentity): Effect.fn.Return<Published | null, SinkError> {
    yield* close
    const topics = yield* ensure(client, neededBy(options))
    yield* ScopedRef.set(session, begin(options.transactions ? `rollcall-relay-${identity.store}` : null))
    const opened = yield* current
    yield* sendWith(opened.producer, [[Control.opened(identity)]])
    const { published, spread } = yield* Control.recall(client, identity.store)
    // A later lineage begins anew, over all partitions that there are.
    if (spread?.lineage === identity.lineage) {
      for (const [topic, used] of spread.partitions) opened.spread.set(topic, used)
    }
    acquaint(opened, topics)
    return published
  })

  const publish = Effect.fn("Kafka.publish")(function*(
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached: Reached | undefined = reachedBy(batch)
  ): Effect.fn.Return<void, SinkError> {
    if (reached === undefined) return
    const session = yield* current
    yield* meet(session, batch.flatMap((entry) => topicsOf(options, entry)))
    const encoding = { identity, topic: options.topic, state: options.state === true, limitOf: limitOf(session) }
    const encoded = batch.map((entry) => messagesOf(encoding, entry))
    yield* send(
      identity,
      session,
      encoded.flatMap((one) => one.messages),
      Control.lastPublished({ ...identity, ...reached })
    )
    const stubbed = encoded.filter((one) => one.stubbed).length
    if (stubbed > 0) yield* Metric.update(stubs, stubbed)
  })

  const report: Sink["Service"]["report"] = Effect.fn("Kafka.report")(function*(identity, streams) {
    if (streams.length === 0) return
    yield* send(identity, yield* current, streams.map((stream) => progressMessage(identity, stream)))
  })

  /** Memory is bounded by what a broker hands over at once, a mebibyte of a partition. */
  const reconcile: Sink["Service"]["reconcile"] = Effect.fnUntraced(function*(identity, streams, lacking) {
    if (options.state !== true) return
    const session = yield* current
    yield* meet(session, streams.flatMap((stream) => topicsOf(options, stream)))
    for (const topic of new Set(streams.map((stream) => stateTopicOf(options.topic, stream)))) {
      yield* client.scan(
        topic,
        `rollcall-relay-${identity.store}-${randomUUID()}`,
        (messages) =>
          Effect.gen(function*() {
            const gone = yield* lacking(messages.flatMap(recordOf))
            const now = yield* Clock.currentTimeMillis
            yield* send(identity, session, gone.map((record) => stateRemoval(identity, topic, record, now)))
          })
      )
    }
  })

  return Sink.of({
    open: (identity) => turn.withPermit(open(identity)),
    publish: (identity, batch, reached) => turn.withPermit(publish(identity, batch, reached)),
    report: (identity, streams) => turn.withPermit(report(identity, streams)),
    reconcile: (identity, streams, lacking) => turn.withPermit(reconcile(identity, streams, lacking))
  })
})

/** What a broker has, as `open` would meet it. */
export interface Examination {
  /** Topics that would be made. */
  readonly missing: ReadonlyArray<string>
  /** Topics of which some partitions stay unused. */
  readonly widened: ReadonlyArray<{ readonly topic: string; readonly partitions: number; readonly used: number }>
  /** Last published by this store; null = nothing yet. */
  readonly published: Published | null
}

/** Nothing is made or written; fails as `open` would. `store`: null where there is none yet. */
export const examine = Effect.fn("Kafka.examine")(function*(
  options: KafkaOptions,
  store: string | null
): Effect.fn.Return<Examination, SinkError> {
  const client = yield* makeClient(options)
  const { missing, present } = yield* look(client, neededBy(options))
  if (store === null || !present.has(Control.controlTopic)) return { missing, widened: [], published: null }
  const { published, spread } = yield* Control.recall(client, store)
  const widened = [...present].flatMap(([topic, { partitions }]) => {
    const used = spread?.partitions.get(topic) ?? partitions
    return used < partitions ? [{ topic, partitions, used }] : []
  })
  return { missing, widened, published }
})

/** Connects with the first `open`; fails at once only for options that can never work. */
export const layer = (options: KafkaOptions): Layer.Layer<Sink, SinkError> => Layer.effect(Sink, make(options))
