/**
 * The sink that publishes to Kafka: each batch is one transaction, which also contains the checkpoint.
 *
 * Invariants
 * 1. Events and the checkpoint `{store, generation, position, chain}` become visible together: readers with `read_committed`
 *    see each event once, even if the process dies at any moment   (X4)
 * 2. After `open`, no publisher that was opened earlier with the same topic template can commit, even if it belongs to another
 *    store   (I10, X15)
 * 3. The events of a record stay in one partition when partitions are added to its topic   (I5, K2)
 * 4. An event too large for its topic is replaced by a stub; the stream continues   (K1)
 * 5. If a topic lost published events, publishing stops: the topic is not created again, and no progress is published   (K3)
 * 6. A store that was not adopted publishes nothing to topics that hold messages and have no checkpoint: another store's   (X14)
 *
 * Gotchas
 * - Without transactions the broker does not fence older publishers, and a batch whose response was lost is published again
 *   with the same event ids.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Semaphore from "effect/Semaphore"
import { randomUUID } from "node:crypto"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { type LogEntry, type LogIdentity, partitionKey } from "../../domain/ChangeEvent.ts"
import { streamName } from "../../domain/Model.ts"
import type { EventPlaces } from "../../store/EventLog.ts"
import {
  type Checkpoint,
  checkpointOf,
  findForeignStore,
  refused,
  Sink,
  type SinkCheckpoint,
  SinkError,
  type SinkInspection
} from "../Sink.ts"
import * as Control from "./ControlTopic.ts"
import { partitionOf } from "./driver/Partitions.ts"
import { make as makeClient } from "./KafkaClient.ts"
import type { KafkaConnection } from "./KafkaConnection.ts"
import { type KafkaMessage, makeEncoder, progressMessage, recordOf, stateRemoval } from "./KafkaMessage.ts"
import * as KafkaSession from "./KafkaSession.ts"
import { ensureTopics, inspectTopics } from "./KafkaTopics.ts"
import {
  findDeviations,
  progressSchemas,
  requiredSchemas,
  requiredTopics,
  streamSchemas,
  streamTopics,
  type TopicOptions
} from "./PublishedTopics.ts"
import * as SchemaRegistry from "./SchemaRegistry.ts"
import * as TopicIntegrity from "./TopicIntegrity.ts"
import { findTemplateError, progressTopicOf, stateTopicOf } from "./TopicNames.ts"

export interface KafkaOptions extends KafkaConnection, TopicOptions {
  /** With `debezium`: whether each deleted event is followed by a message without a value; true by default. */
  readonly tombstones?: boolean
  /** `false` for brokers without transactions: events can then appear twice, with the same id. */
  readonly transactions: boolean
}

const stubs = Metric.counter("rollcall_relay_stubs_total", {
  description: "Events that were too large for Kafka, and were published as stubs that point at the event log",
  incremental: true
})

const registryOf = ({ schemaRegistry }: KafkaOptions): SchemaRegistry.SchemaRegistry =>
  schemaRegistry == null ? SchemaRegistry.none : SchemaRegistry.fromOptions(schemaRegistry)

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
  const transactionalId = options.transactions ? `rollcall-relay-${options.topic}` : null
  const sessions = yield* KafkaSession.make(client, options.topic, transactionalId)
  const mutex = yield* Semaphore.make(1)
  const registry = registryOf(options)
  const models = yield* CurrentModels

  const open = Effect.fn("Kafka.open")(
    function*(identity: LogIdentity): Effect.fn.Return<SinkCheckpoint | null, SinkError> {
      yield* sessions.close
      yield* registry.register(requiredSchemas(models, options))
      const control = yield* ensureTopics(client, [Control.controlTopic(options.topic, options.replicationFactor)])
      yield* sessions.open(identity)
      const session = yield* sessions.current
      yield* session.send([Control.openedMessage(options.topic)])
      const { published, topics } = yield* Control.readControlTopic(client, options.topic)
      const foreign = findForeignStore(identity, published)
      if (foreign !== null) {
        yield* sessions.close
        return yield* new SinkError({ reason: foreign })
      }
      for (const [name, info] of control) session.topics.set(name, info)
      // A later generation has no checkpoints yet, so it uses all existing partitions.
      for (const [topic, checkpoint] of topics(identity)) session.checkpoints.set(topic, checkpoint)
      yield* session.ensure(requiredTopics(options))
      return published
    }
  )

  const publish = Effect.fn("Kafka.publish")(function*(
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    checkpoint: Checkpoint | undefined = checkpointOf(batch)
  ): Effect.fn.Return<ReadonlyArray<EventPlaces>, SinkError> {
    if (checkpoint === undefined) return []
    const session = yield* sessions.current
    const streams = [...Map.groupBy(batch, streamName).values()].flatMap((entries) =>
      entries[0] === undefined ? [] : [{ stream: entries[0], entries }]
    )
    yield* registry.register(streams.flatMap(({ stream }) => streamSchemas(models, options, stream)))
    yield* session.ensure(streams.flatMap(({ stream }) => streamTopics(options, stream)))
    const { limitOf } = session
    const { format = "cloudevents", state = false, tombstones = true, topic } = options
    const encode = makeEncoder({ identity, models, topic, state, format, tombstones, limitOf, frame: registry.frame })
    const encoded = batch.map(encode)
    const positions = streams.flatMap(({ entries, stream }) =>
      streamTopics(options, stream).flatMap(({ name }) => entries.map(({ position }) => ({ name, position })))
    )
    const published = Map.groupBy(
      positions.sort((one, other) => one.position - other.position),
      ({ name }) => name
    )
    const at = yield* Clock.currentTimeMillis
    const places = yield* session.sendEvents(
      encoded.flatMap((entry) => entry.messages),
      published,
      (places) => Control.checkpointMessage(options.topic, { ...identity, ...checkpoint, published: { at, places } })
    )
    const stubbed = encoded.filter((entry) => entry.stubbed).length
    if (stubbed > 0) yield* Metric.update(stubs, stubbed)
    return places
  })

  const publishProgress: Sink["Service"]["publishProgress"] = Effect.fn("Kafka.publishProgress")(
    function*(identity, streams) {
      if (streams.length === 0) return
      const session = yield* sessions.current
      // Progress promises that all events are in the topics, so topics without an event in this session are checked too.
      const events = streams.flatMap((stream) => streamTopics(options, stream)).map(({ name }) => name)
      yield* session.requireIntact(events)
      yield* registry.register([progressSchemas(options)])
      const { frame } = registry
      yield* session.send(streams.map((stream) => progressMessage(identity, options.topic, stream, frame)))
    }
  )

  /**
   * Reads the state topics, and publishes a removal for each record there that `lacking` selects. If partitions were added, the new
   * generation uses them, so some keys move to another partition. The record is then also removed from the partition that its key had
   * before: later messages go to the new partition, and compaction would keep the old message forever. Memory use is bounded by what a
   * broker returns at once: 1 MiB per partition.
   */
  const reconcile: Sink["Service"]["reconcile"] = Effect.fnUntraced(function*(identity, streams, lacking) {
    if (options.state !== true) return
    const session = yield* sessions.current
    const all = [...streams, ...options.streams ?? []]
    yield* session.ensure(all.flatMap((stream) => streamTopics(options, stream)))
    for (const topic of new Set(all.map((stream) => stateTopicOf(options.topic, stream)))) {
      yield* client.scan(
        topic,
        `rollcall-relay-${randomUUID()}`,
        (messages) =>
          Effect.gen(function*() {
            const lacked = new Set((yield* lacking(messages.flatMap(recordOf))).map(partitionKey))
            const now = yield* Clock.currentTimeMillis
            const removals = new Map<string, KafkaMessage>()
            for (const message of messages) {
              for (const record of recordOf(message)) {
                const key = partitionKey(record)
                const moved = !lacked.has(key)
                if (moved && partitionOf(key, session.usedPartitions(topic)) === message.partition) continue
                const removal = stateRemoval(identity, topic, record, now, moved ? message : null)
                removals.set(key, { ...removal, partition: message.partition })
              }
            }
            yield* session.sendEvents([...removals.values()], new Map())
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

const noStore: LogIdentity = { store: "", generation: 1 }

/**
 * Inspects the broker without creating or writing anything; fails like `open`. `identity`: null if the store does not exist
 * yet, "unknown" if the store cannot be read. If it is "unknown", the inspection does not look for a blocker.
 */
export const inspect = Effect.fn("Kafka.inspect")(function*(
  options: KafkaOptions,
  identity: LogIdentity | null | "unknown"
): Effect.fn.Return<SinkInspection, SinkError> {
  const client = yield* makeClient(options)
  yield* registryOf(options).check(requiredSchemas(yield* CurrentModels, options))
  const control = Control.controlTopic(options.topic, options.replicationFactor)
  const { missing, present } = yield* inspectTopics(client, [control, ...requiredTopics(options)])
  const { published, topics } = present.has(control.name)
    ? yield* Control.readControlTopic(client, options.topic)
    : { published: null, topics: () => new Map<string, Control.TopicCheckpoint>() }
  const deviations = findDeviations(options, present)
  if (identity === "unknown") return { missing, deviations, unusedPartitions: [], published, blocker: null }
  const { generation } = identity ?? noStore
  const checkpoints = topics(identity ?? noStore)
  const events = [...present.keys()].filter((name) => ![control.name, progressTopicOf(options.topic)].includes(name))
  const blocker = findForeignStore(identity, published) ??
    TopicIntegrity.findOtherForm(checkpoints, requiredTopics(options)) ??
    (yield* TopicIntegrity.findLostTopic(client, checkpoints, [...missing, ...events])) ??
    (generation === 1 ? yield* TopicIntegrity.findForeignTopics(client, options.topic, checkpoints, events) : null)
  const unusedPartitions = [...present].flatMap(([topic, { partitions }]) => {
    const used = checkpoints.get(topic)?.partitions ?? partitions
    return used < partitions ? [{ topic, partitions, used }] : []
  })
  return { missing, deviations, unusedPartitions, published, blocker }
})

/** Connects at the first `open`; building the layer fails only for invalid options. */
export const layer = (options: KafkaOptions): Layer.Layer<Sink, SinkError> => Layer.effect(Sink, make(options))
