/**
 * The sink that publishes to Kafka: each batch is one transaction, which also contains the checkpoint.
 *
 * Invariants
 * 1. Events and the checkpoint `{store, generation, position, chain}` become visible together: readers with `read_committed`
 *    see each event once, even if the process dies at any moment   (X4)
 * 2. After `open` no older publisher under the same template can commit, whether of this store or another   (I10, X15)
 * 3. The events of a record stay in one partition when partitions are added to its topic   (I5, K2)
 * 4. An event too large for its topic is replaced by a stub; the stream continues   (K1)
 * 5. If a topic lost published events, publishing stops: the topic is not created again, and no progress is published   (K3)
 * 6. A store that was never adopted does not publish to a topic with messages that are not recorded as its own   (X14)
 *
 * Gotchas
 * - Without transactions the broker does not fence older publishers, and a batch whose response was lost is published again
 *   with the same event ids.
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
  /** Template of topic names with `{model}` and `{integration}`; `rollcall.{model}` by default. */
  readonly topic: string
  /** Whether each record's latest content is also published to a compacted topic, `<topic>.state`; null after deletion. */
  readonly state?: boolean
  /** `false` for brokers without transactions: events can then appear twice, with the same id. */
  readonly transactions: boolean
  /** Streams whose topics `open` creates or checks. Topics of other streams are created with their first event. */
  readonly streams?: ReadonlyArray<StreamKey>
}

const eventPartitions = 6
/** How often publishing progress compares the ends of all topics (ns). It checks that they exist every time. */
const endsCheckInterval = 60_000_000_000n

const stubs = Metric.counter("rollcall_relay_stubs_total", {
  description: "Events too large for the sink, published as stubs that point at the event log",
  incremental: true
})

/** The state from one `open` to the next, or to the first failure. */
interface Session {
  readonly producer: KafkaProducer
  /** Every topic that this session has checked or created. */
  readonly topics: Map<string, TopicInfo>
  /** The checkpoint of each topic for this store and generation, as saved at the broker. */
  readonly checkpoints: Map<string, Control.TopicCheckpoint>
  /** When the ends of all topics were last compared; first by `open`. Monotonic ns. */
  endsCheckedAt: bigint
  /** Topics with unused partitions: the number of all their partitions, and whether the warning was logged. */
  readonly unusedPartitions: Map<string, { readonly partitions: number; readonly warned: boolean }>
}

const refused = (message: string, hint: string) => new SinkError({ reason: new Refused({ message, hint }) })
const notOpen = new SinkError({
  reason: new Unreachable({ message: "publishing to Kafka: an earlier failure closed the producer", cause: null })
})

const streamTopics = (options: KafkaOptions, stream: StreamKey): ReadonlyArray<KafkaTopic> => [
  { name: topicOf(options.topic, stream), keeps: "log", partitions: eventPartitions },
  ...(options.state === true
    ? [{ name: stateTopicOf(options.topic, stream), keeps: "latest", partitions: eventPartitions } as const]
    : [])
]
/** Topics that must exist before anything is published. */
const requiredTopics = (options: KafkaOptions): ReadonlyArray<KafkaTopic> => {
  const topics = [
    { name: progressTopicOf(options.topic), keeps: "latest", partitions: 1 } as const,
    ...(options.streams ?? []).flatMap((stream) => streamTopics(options, stream))
  ]
  return [...new Map(topics.map((topic) => [topic.name, topic])).values()]
}

const make = Effect.fnUntraced(function*(options: KafkaOptions) {
  const templateError = findTemplateError(options.topic)
  if (templateError !== null) {
    return yield* refused(templateError, "correct ROLLCALL_TOPIC, for example rollcall.{model}.")
  }
  if (!options.transactions) {
    yield* Effect.logWarning(
      "publishing without Kafka transactions: after a failure, events can appear twice with the same id"
    )
  }
  const client = yield* makeClient(options)
  const session = yield* ScopedRef.make((): Session | null => null)
  const mutex = yield* Semaphore.make(1)
  const close = ScopedRef.set(session, Effect.succeed(null))
  /** Lowered when a broker rejects a batch that its configuration allows. */
  let maxBatchBytes = Number.POSITIVE_INFINITY

  /** Creates missing topics, and saves the checkpoint of each new topic at the broker before anything is sent to it. */
  const ensureSessionTopics = Effect.fnUntraced(
    function*(identity: LogIdentity, session: Session, topics: Iterable<KafkaTopic>) {
      const unchecked = new Map<string, KafkaTopic>()
      for (const topic of topics) if (!session.topics.has(topic.name)) unchecked.set(topic.name, topic)
      if (unchecked.size === 0) return
      yield* requireIntactTopics(session, [...unchecked.keys()])
      if (identity.generation === 1) {
        const events = [...unchecked.keys()].filter((name) => name !== progressTopicOf(options.topic))
        yield* failOn(TopicIntegrity.findForeignTopics(client, options.topic, session.checkpoints, events))
      }
      const messages: Array<KafkaMessage> = []
      for (const [name, info] of yield* ensureTopics(client, [...unchecked.values()])) {
        session.topics.set(name, info)
        const known = session.checkpoints.get(name)
        if (known !== undefined && known.partitions <= info.partitions) continue
        const checkpoint = TopicIntegrity.emptyCheckpoint(info.partitions)
        session.checkpoints.set(name, checkpoint)
        messages.push(Control.topicCheckpointMessage(options.topic, identity, name, checkpoint))
      }
      if (messages.length > 0) yield* sendWith(session.producer, splitIntoSends(messages, limitOf(session)))
    }
  )

  const failOn = (found: Effect.Effect<Refused | null, SinkError>): Effect.Effect<void, SinkError> =>
    Effect.flatMap(found, (reason) => reason === null ? Effect.void : new SinkError({ reason }))

  /**
   * Fails if a topic lost published events. Topics without published events are not checked, nor is the progress topic,
   * because progress is published again.
   */
  const requireIntactTopics = (
    session: Session,
    topics: ReadonlyArray<string>,
    depth?: TopicIntegrity.CheckDepth
  ) => failOn(TopicIntegrity.findLostTopic(client, session.checkpoints, topics, depth))

  const warnUnusedPartitions = Effect.fnUntraced(function*({ checkpoints, unusedPartitions }: Session) {
    for (const [topic, { partitions, warned }] of unusedPartitions) {
      if (warned) continue
      unusedPartitions.set(topic, { partitions, warned: true })
      const used = checkpoints.get(topic)?.partitions
      yield* Effect.logWarning(
        `topic ${topic} has ${partitions} partitions, but events still go to the first ${used}, so that each record's ` +
          "events stay in order. `rollcall store adopt` publishes every live record again, over all partitions"
      )
    }
  })

  const limitOf = ({ topics }: Session) => (topic: string) =>
    Math.min(maxBatchBytes, topics.get(topic)?.batchBytes ?? maxBatchBytes)

  /** A failure or an interruption leaves the producer in an unknown state, so the session is closed. */
  const sendWith = (producer: KafkaProducer, ...send: Parameters<KafkaProducer["send"]>) =>
    producer.send(...send).pipe(
      Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : close),
      Effect.catchTag("BatchTooLarge", () => {
        maxBatchBytes = Math.max(16_384, Math.min(maxBatchBytes, 1_048_588) / 2)
        return new SinkError({
          reason: new Unreachable({
            message:
              `publishing to Kafka: the broker rejected a batch as too large; the new limit is ${maxBatchBytes} bytes`,
            cause: null
          })
        })
      })
    )

  /**
   * Sends messages to event topics, then the new topic checkpoints, then `last`. Without transactions this order ensures that
   * a checkpoint is never durable before its events. `published`: the events' positions by topic.
   */
  const send = Effect.fnUntraced(function*(
    identity: LogIdentity,
    session: Session,
    messages: ReadonlyArray<KafkaMessage>,
    published: ReadonlyMap<string, ReadonlyArray<{ readonly position: number }>>,
    last?: KafkaMessage
  ) {
    let newCheckpoints: ReadonlyArray<readonly [topic: string, Control.TopicCheckpoint]> = []
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
      newCheckpoints = next
      const saves = next.map(([topic, own]) => Control.topicCheckpointMessage(options.topic, identity, topic, own))
      return splitIntoSends([...saves, ...(last === undefined ? [] : [last])], limitOf(session))
    }
    yield* Effect.raceFirst(
      sendWith(session.producer, splitIntoSends(messages, limitOf(session)), closing),
      watchTopics(session)
    )
    for (const [topic, own] of newCheckpoints) session.checkpoints.set(topic, own)
    yield* warnUnusedPartitions(session)
  })

  /** kafkajs retries a send to a deleted topic as if the broker were unavailable, so a slow send checks the topics. */
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
      if (used < partitions && !unusedPartitions.has(topic)) unusedPartitions.set(topic, { partitions, warned: false })
      return used
    }
    const producer = yield* Effect.interruptible(client.producer(transactionalId, keys))
    const endsCheckedAt = yield* Clock.monotonicTimeNanos
    const opened: Session = { producer, topics: new Map(), checkpoints, endsCheckedAt, unusedPartitions }
    return opened
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
      for (const [name, info] of control) opened.topics.set(name, info)
      // A later generation has no checkpoints yet, so it uses all existing partitions.
      for (const [topic, checkpoint] of topics(identity)) opened.checkpoints.set(topic, checkpoint)
      yield* ensureSessionTopics(identity, opened, requiredTopics(options))
      return published
    }
  )

  const publish = Effect.fn("Kafka.publish")(function*(
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    checkpoint: Checkpoint | undefined = checkpointOf(batch)
  ): Effect.fn.Return<void, SinkError> {
    if (checkpoint === undefined) return
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
      encoded.flatMap((entry) => entry.messages),
      published,
      Control.checkpointMessage(options.topic, { ...identity, ...checkpoint })
    )
    const stubbed = encoded.filter((entry) => entry.stubbed).length
    if (stubbed > 0) yield* Metric.update(stubs, stubbed)
  })

  const publishProgress: Sink["Service"]["publishProgress"] = Effect.fn("Kafka.publishProgress")(
    function*(identity, streams) {
      if (streams.length === 0) return
      const session = yield* current
      // Progress promises that all events are in the topics, so topics without an event in this session are checked too.
      const events = streams.flatMap((stream) => streamTopics(options, stream)).map(({ name }) => name)
      const now = yield* Clock.monotonicTimeNanos
      const isTime = now - session.endsCheckedAt > endsCheckInterval
      yield* requireIntactTopics(session, [...session.topics.keys(), ...events], isTime ? "ends" : "existence")
      if (isTime) session.endsCheckedAt = now
      const messages = streams.map((stream) => progressMessage(identity, options.topic, stream))
      yield* sendWith(session.producer, splitIntoSends(messages, limitOf(session)))
    }
  )

  /** Memory use is bounded by what a broker returns at once: 1 MiB per partition. */
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
            const removed = yield* lacking(messages.flatMap(recordOf))
            const now = yield* Clock.currentTimeMillis
            const removals = removed.map((record) => stateRemoval(identity, topic, record, now))
            yield* send(identity, session, removals, new Map())
          })
      )
    }
  })

  return Sink.of({
    open: (identity) => mutex.withPermit(open(identity)),
    publish: (identity, batch, checkpoint) => mutex.withPermit(publish(identity, batch, checkpoint)),
    publishProgress: (identity, streams) => mutex.withPermit(publishProgress(identity, streams)),
    reconcile: (identity, streams, lacking) => mutex.withPermit(reconcile(identity, streams, lacking))
  })
})

/** The state of the broker as `open` would find it. */
export interface KafkaInspection {
  /** Topics that `open` would create. */
  readonly missing: ReadonlyArray<string>
  /** Topics with unused partitions. */
  readonly unusedPartitions: ReadonlyArray<
    { readonly topic: string; readonly partitions: number; readonly used: number }
  >
  /** The last checkpoint under this template, of any store; null = nothing was published yet. */
  readonly published: SinkCheckpoint | null
  /** Why this store could not publish; null if it could. */
  readonly blocker: { readonly message: string; readonly hint: string } | null
}

const noStore: LogIdentity = { store: "", generation: 1 }

/**
 * Inspects the broker without creating or writing anything; fails like `open`. `identity`: null if the store does not exist
 * yet, "unknown" if the store cannot be read. If it is "unknown", the inspection does not look for a blocker.
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
  const checkpoints = topics(identity ?? noStore)
  const events = [...present.keys()].filter((name) => ![control.name, progressTopicOf(options.topic)].includes(name))
  const blocker = findForeignStore(identity, published) ??
    (yield* TopicIntegrity.findLostTopic(client, checkpoints, [...missing, ...events])) ??
    (generation === 1 ? yield* TopicIntegrity.findForeignTopics(client, options.topic, checkpoints, events) : null)
  const unusedPartitions = [...present].flatMap(([topic, { partitions }]) => {
    const used = checkpoints.get(topic)?.partitions ?? partitions
    return used < partitions ? [{ topic, partitions, used }] : []
  })
  return { missing, unusedPartitions, published, blocker }
})

/** Connects at the first `open`; building the layer fails only for invalid options. */
export const layer = (options: KafkaOptions): Layer.Layer<Sink, SinkError> => Layer.effect(Sink, make(options))
