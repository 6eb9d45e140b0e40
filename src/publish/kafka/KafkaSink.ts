/**
 * The sink that publishes to Kafka: one transaction per batch, which also writes down how far it came.
 *
 * Invariants
 * 1. Events and the control record `{store, generation, position, chain}` become visible together: readers with
 *    `read_committed` see each event once, whenever we die   (X4)
 * 2. After `open` no older publisher under the same template can commit, be it of this store or another   (I10, X15)
 * 3. The events of a record stay in one partition when partitions are added to its topic   (I5, K2)
 * 4. An event too large for its topic is replaced by a stub; the stream goes on   (K1)
 * 5. A topic that no longer holds what was published there stops publishing; it is not made again, and no progress is told   (K3)
 * 6. A store that was never adopted publishes to no topic that holds what is not written down as its own   (X14)
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
import type { LogEntry, LogIdentity } from "../../domain/ChangeEvent.ts"
import type { StreamKey } from "../../domain/Model.ts"
import {
  type Checkpoint,
  checkpointOf,
  findForeignStore,
  Refused,
  Sink,
  type SinkCheckpoint,
  SinkError,
  Unreachable
} from "../Sink.ts"
import * as Control from "./ControlTopic.ts"
import { type AppendedBatch, type KafkaConnection, type KafkaProducer, make as makeClient } from "./KafkaClient.ts"
import {
  findTemplateError,
  type KafkaMessage,
  messagesOf,
  progressMessage,
  progressTopicOf,
  recordOf,
  splitIntoSends,
  stateRemoval,
  stateTopicOf,
  topicOf
} from "./KafkaMessage.ts"
import { ensureTopics, inspectTopics, type KafkaTopic, type TopicInfo } from "./KafkaTopics.ts"
import * as TopicIntegrity from "./TopicIntegrity.ts"

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
/** How often the ends of all topics are compared while progress is told, ns. Whether they exist is asked each time. */
const endsCheckInterval = 60_000_000_000n

const stubs = Metric.counter("rollcall_relay_stubs_total", {
  description: "Events too large for the sink, published as stubs that point at the event log",
  incremental: true
})

/** What lives from one `open` to the next, or to the first failure. */
interface Session {
  readonly producer: KafkaProducer
  /** Every topic met. */
  readonly topics: Map<string, TopicInfo>
  /** What the broker remembers of each, as this store published it in this generation. */
  readonly checkpoints: Map<string, Control.TopicCheckpoint>
  /** When the ends of all topics were compared last: by `open`, then now and then. Monotonic ns. */
  endsCheckedAt: bigint
  /** Topics that have more partitions than are used: how many, and whether that was told. */
  readonly unusedPartitions: Map<string, { readonly partitions: number; readonly told: boolean }>
}

const refused = (message: string, hint: string) => new SinkError({ reason: new Refused({ message, hint }) })
const notOpen = new SinkError({
  reason: new Unreachable({ message: "publishing to Kafka: the producer failed before", cause: null })
})

const streamTopics = (options: KafkaOptions, stream: StreamKey): ReadonlyArray<KafkaTopic> => [
  { name: topicOf(options.topic, stream), keeps: "log", partitions: eventPartitions },
  ...(options.state === true
    ? [{ name: stateTopicOf(options.topic, stream), keeps: "latest", partitions: eventPartitions } as const]
    : [])
]
/** Those that must be there before anything is published. */
const requiredTopics = (options: KafkaOptions): ReadonlyArray<KafkaTopic> => {
  const topics = [
    { name: progressTopicOf(options.topic), keeps: "latest", partitions: 1 } as const,
    ...(options.streams ?? []).flatMap((stream) => streamTopics(options, stream))
  ]
  return [...new Map(topics.map((topic) => [topic.name, topic])).values()]
}

const make = Effect.fnUntraced(function*(options: KafkaOptions) {
  const fault = findTemplateError(options.topic)
  if (fault !== null) return yield* refused(fault, "correct ROLLCALL_TOPIC, for example rollcall.{model}.")
  if (!options.transactions) {
    yield* Effect.logWarning(
      "publishing without Kafka transactions: after a failure events can appear twice, with the same id"
    )
  }
  const client = yield* makeClient(options)
  const session = yield* ScopedRef.make((): Session | null => null)
  const mutex = yield* Semaphore.make(1)
  const close = ScopedRef.set(session, Effect.succeed(null))
  /** Lowered when a broker refuses what its configuration promised. */
  let maxBatchBytes = Number.POSITIVE_INFINITY

  /** Makes topics that are missing, and has the broker remember those that are new, before anything is sent there. */
  const ensureSessionTopics = Effect.fnUntraced(
    function*(identity: LogIdentity, session: Session, topics: Iterable<KafkaTopic>) {
      const unmet = new Map<string, KafkaTopic>()
      for (const topic of topics) if (!session.topics.has(topic.name)) unmet.set(topic.name, topic)
      if (unmet.size === 0) return
      yield* requireIntactTopics(session, [...unmet.keys()])
      if (identity.generation === 1) {
        const events = [...unmet.keys()].filter((name) => name !== progressTopicOf(options.topic))
        yield* failOn(TopicIntegrity.findForeignTopics(client, options.topic, session.checkpoints, events))
      }
      const news: Array<KafkaMessage> = []
      for (const [name, facts] of yield* ensureTopics(client, [...unmet.values()])) {
        session.topics.set(name, facts)
        const known = session.checkpoints.get(name)
        if (known !== undefined && known.partitions <= facts.partitions) continue
        const memory = TopicIntegrity.emptyCheckpoint(facts.partitions)
        session.checkpoints.set(name, memory)
        news.push(Control.topicCheckpointMessage(options.topic, identity, name, memory))
      }
      if (news.length > 0) yield* sendWith(session.producer, splitIntoSends(news, limitOf(session)))
    }
  )

  const failOn = (found: Effect.Effect<Refused | null, SinkError>): Effect.Effect<void, SinkError> =>
    Effect.flatMap(found, (reason) => reason === null ? Effect.void : new SinkError({ reason }))

  /** Of topics to which nothing was published it says nothing; nor of progress, which is told again when it is asked for. */
  const requireIntactTopics = (
    session: Session,
    topics: ReadonlyArray<string>,
    closeness?: TopicIntegrity.CheckDepth
  ) => failOn(TopicIntegrity.findLostTopic(client, session.checkpoints, topics, closeness))

  const warnUnusedPartitions = Effect.fnUntraced(function*({ checkpoints, unusedPartitions }: Session) {
    for (const [topic, { partitions, told }] of unusedPartitions) {
      if (told) continue
      unusedPartitions.set(topic, { partitions, told: true })
      yield* Effect.logWarning(
        `topic ${topic} has ${partitions} partitions; events go to ${
          checkpoints.get(topic)?.partitions
        } of them as before, so that ` +
          "those of a record stay in order. `rollcall store adopt` publishes everything anew, over all of them"
      )
    }
  })

  const limitOf = ({ topics }: Session) => (topic: string) =>
    Math.min(maxBatchBytes, topics.get(topic)?.batchBytes ?? maxBatchBytes)

  /** Any failure, and an interruption in the middle, leaves the producer in an unknown state: it is thrown away. */
  const sendWith = (producer: KafkaProducer, ...send: Parameters<KafkaProducer["send"]>) =>
    producer.send(...send).pipe(
      Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : close),
      Effect.catchTag("BatchTooLarge", () => {
        maxBatchBytes = Math.max(16_384, Math.min(maxBatchBytes, 1_048_588) / 2)
        return new SinkError({
          reason: new Unreachable({
            message: `publishing to Kafka: the broker refused a batch as too large, trying ${maxBatchBytes} bytes`,
            cause: null
          })
        })
      })
    )

  /**
   * Sends to topics of events, then notes where that ended, and `last`: without transactions neither must be durable before
   * the events are. `published`: by topic, the events' positions.
   */
  const send = Effect.fnUntraced(function*(
    identity: LogIdentity,
    session: Session,
    messages: ReadonlyArray<KafkaMessage>,
    published: ReadonlyMap<string, ReadonlyArray<{ readonly position: number }>>,
    last?: KafkaMessage
  ) {
    let memory: ReadonlyArray<readonly [topic: string, Control.TopicCheckpoint]> = []
    const closing = (appended: ReadonlyArray<AppendedBatch>) => {
      const sent = Map.groupBy(appended, ({ topic }) => topic)
      const next: Array<readonly [topic: string, Control.TopicCheckpoint]> = []
      for (const [topic, own] of sent) {
        const before = session.checkpoints.get(topic)
        if (before === undefined) continue
        const after = TopicIntegrity.advanceCheckpoint(
          before,
          (published.get(topic) ?? []).map(({ position }) => position),
          own
        )
        if (after === null) return new SinkError({ reason: TopicIntegrity.topicLost(topic, before, true) })
        next.push([topic, after])
      }
      memory = next
      const notes = next.map(([topic, own]) => Control.topicCheckpointMessage(options.topic, identity, topic, own))
      return splitIntoSends([...notes, ...(last === undefined ? [] : [last])], limitOf(session))
    }
    yield* Effect.raceFirst(
      sendWith(session.producer, splitIntoSends(messages, limitOf(session)), closing),
      watchTopics(session)
    )
    for (const [topic, own] of memory) session.checkpoints.set(topic, own)
    yield* warnUnusedPartitions(session)
  })

  /** kafkajs waits for a topic that is gone as for a broker that is away: a send that takes long looks which it is. */
  const watchTopics = (session: Session): Effect.Effect<never, SinkError> =>
    Effect.sleep("2 seconds").pipe(
      Effect.andThen(requireIntactTopics(session, [...session.topics.keys()])),
      Effect.catchReason("SinkError", "Unreachable", () => Effect.void),
      Effect.forever({ disableYield: true })
    )

  const current = Effect.flatMap(
    ScopedRef.get(session),
    (session): Effect.Effect<Session, SinkError> => session === null ? Effect.fail(notOpen) : Effect.succeed(session)
  )

  const openSession = Effect.fnUntraced(function*(transactionalId: string | null) {
    const checkpoints: Session["checkpoints"] = new Map()
    const unusedPartitions: Session["unusedPartitions"] = new Map()
    const keys = (topic: string, partitions: number) => {
      const used = checkpoints.get(topic)?.partitions ?? partitions
      if (used < partitions && !unusedPartitions.has(topic)) unusedPartitions.set(topic, { partitions, told: false })
      return used
    }
    const producer = yield* Effect.interruptible(client.producer(transactionalId, keys))
    const endsCheckedAt = yield* Clock.monotonicTimeNanos
    const begun: Session = { producer, topics: new Map(), checkpoints, endsCheckedAt, unusedPartitions }
    return begun
  })

  const open = Effect.fn("Kafka.open")(
    function*(identity: LogIdentity): Effect.fn.Return<SinkCheckpoint | null, SinkError> {
      yield* close
      const control = yield* ensureTopics(client, [Control.controlTopic(options.topic)])
      yield* ScopedRef.set(session, openSession(options.transactions ? `rollcall-relay-${options.topic}` : null))
      const opened = yield* current
      yield* sendWith(opened.producer, [[Control.openedMessage(options.topic)]])
      const { published, topics } = yield* Control.readControlTopic(client, options.topic)
      const foreign = findForeignStore(identity, published)
      if (foreign !== null) {
        yield* close
        return yield* new SinkError({ reason: foreign })
      }
      for (const [name, facts] of control) opened.topics.set(name, facts)
      // A later generation begins anew, over all partitions that there are.
      for (const [topic, memory] of topics(identity)) opened.checkpoints.set(topic, memory)
      yield* ensureSessionTopics(identity, opened, requiredTopics(options))
      return published
    }
  )

  const publish = Effect.fn("Kafka.publish")(function*(
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached: Checkpoint | undefined = checkpointOf(batch)
  ): Effect.fn.Return<void, SinkError> {
    if (reached === undefined) return
    const session = yield* current
    yield* ensureSessionTopics(identity, session, batch.flatMap((entry) => streamTopics(options, entry)))
    const encoding = { identity, topic: options.topic, state: options.state === true, limitOf: limitOf(session) }
    const encoded = batch.map((entry) => messagesOf(encoding, entry))
    const published = Map.groupBy(
      batch.flatMap((entry) => streamTopics(options, entry).map(({ name }) => ({ name, position: entry.position }))),
      ({ name }) => name
    )
    yield* send(
      identity,
      session,
      encoded.flatMap((one) => one.messages),
      published,
      Control.checkpointMessage(options.topic, { ...identity, ...reached })
    )
    const stubbed = encoded.filter((one) => one.stubbed).length
    if (stubbed > 0) yield* Metric.update(stubs, stubbed)
  })

  const publishProgress: Sink["Service"]["publishProgress"] = Effect.fn("Kafka.report")(function*(identity, streams) {
    if (streams.length === 0) return
    const session = yield* current
    // what is told is that everything is there: topics of streams without an event since the start are looked at too
    const events = streams.flatMap((stream) => streamTopics(options, stream)).map(({ name }) => name)
    const now = yield* Clock.monotonicTimeNanos
    const isTime = now - session.endsCheckedAt > endsCheckInterval
    yield* requireIntactTopics(session, [...session.topics.keys(), ...events], isTime ? "ends" : "existence")
    if (isTime) session.endsCheckedAt = now
    const messages = streams.map((stream) => progressMessage(identity, options.topic, stream))
    yield* sendWith(session.producer, splitIntoSends(messages, limitOf(session)))
  })

  /** Memory is bounded by what a broker hands over at once, a mebibyte of a partition. */
  const reconcile: Sink["Service"]["reconcile"] = Effect.fnUntraced(function*(identity, streams, lacking) {
    if (options.state !== true) return
    const session = yield* current
    yield* ensureSessionTopics(identity, session, streams.flatMap((stream) => streamTopics(options, stream)))
    for (const topic of new Set(streams.map((stream) => stateTopicOf(options.topic, stream)))) {
      yield* client.scan(
        topic,
        `rollcall-relay-${randomUUID()}`,
        (messages) =>
          Effect.gen(function*() {
            const gone = yield* lacking(messages.flatMap(recordOf))
            const now = yield* Clock.currentTimeMillis
            const removals = gone.map((record) => stateRemoval(identity, topic, record, now))
            yield* send(identity, session, removals, new Map())
          })
      )
    }
  })

  return Sink.of({
    open: (identity) => mutex.withPermit(open(identity)),
    publish: (identity, batch, reached) => mutex.withPermit(publish(identity, batch, reached)),
    publishProgress: (identity, streams) => mutex.withPermit(publishProgress(identity, streams)),
    reconcile: (identity, streams, lacking) => mutex.withPermit(reconcile(identity, streams, lacking))
  })
})

/** What a broker has, as `open` would meet it. */
export interface KafkaInspection {
  /** Topics that would be made. */
  readonly missing: ReadonlyArray<string>
  /** Topics of which some partitions stay unused. */
  readonly unusedPartitions: ReadonlyArray<
    { readonly topic: string; readonly partitions: number; readonly used: number }
  >
  /** Last published under this template, by whichever store; null = nothing yet. */
  readonly published: SinkCheckpoint | null
  /** Why this store would not be let to publish; null when it would. */
  readonly blocker: { readonly message: string; readonly hint: string } | null
}

const noStore: LogIdentity = { store: "", generation: 1 }

/**
 * Nothing is made or written; fails as `open` would. `identity`: null where there is no store yet, "unknown" where the store
 * cannot be read: then no blocker is looked for.
 */
export const inspect = Effect.fn("Kafka.inspect")(function*(
  options: KafkaOptions,
  identity: LogIdentity | null | "unknown"
): Effect.fn.Return<KafkaInspection, SinkError> {
  const client = yield* makeClient(options)
  const control = Control.controlTopic(options.topic)
  const { missing, present } = yield* inspectTopics(client, [control, ...requiredTopics(options)])
  const { published, topics } = present.has(control.name)
    ? yield* Control.readControlTopic(client, options.topic)
    : { published: null, topics: () => new Map<string, Control.TopicCheckpoint>() }
  if (identity === "unknown") return { missing, unusedPartitions: [], published, blocker: null }
  const { generation } = identity ?? noStore
  const memory = topics(identity ?? noStore)
  const events = [...present.keys()].filter((name) => ![control.name, progressTopicOf(options.topic)].includes(name))
  const blocker = findForeignStore(identity, published) ??
    (yield* TopicIntegrity.findLostTopic(client, memory, [...missing, ...events])) ??
    (generation === 1 ? yield* TopicIntegrity.findForeignTopics(client, options.topic, memory, events) : null)
  const unusedPartitions = [...present].flatMap(([topic, { partitions }]) => {
    const used = memory.get(topic)?.partitions ?? partitions
    return used < partitions ? [{ topic, partitions, used }] : []
  })
  return { missing, unusedPartitions, published, blocker }
})

/** Connects with the first `open`; fails at once only for options that can never work. */
export const layer = (options: KafkaOptions): Layer.Layer<Sink, SinkError> => Layer.effect(Sink, make(options))
