/**
 * A session: the producer, and what it must know about each topic. It lasts from one `open` of the sink to the next, or to the first
 * failure.
 *
 * Invariants
 * 1. A topic's checkpoint is saved at the broker before anything is sent to the topic   (X14)
 * 2. The events of a record stay in one partition when partitions are added to its topic   (I5, K2)
 * 3. If a topic lost published events, nothing more is sent, and the topic is not created again   (K3)
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as ScopedRef from "effect/ScopedRef"
import type { LogIdentity } from "../../domain/ChangeEvent.ts"
import type { EventPlaces } from "../../store/EventLog.ts"
import { type Refused, SinkError, unreachable } from "../Sink.ts"
import * as Control from "./ControlTopic.ts"
import type { KafkaClient, KafkaProducer, PlacedBatch } from "./KafkaClient.ts"
import { isBatchTooLarge } from "./KafkaErrors.ts"
import type { KafkaMessage } from "./KafkaMessage.ts"
import { ensureTopics, type KafkaTopic, type TopicInfo } from "./KafkaTopics.ts"
import { splitIntoSends } from "./Sends.ts"
import * as TopicIntegrity from "./TopicIntegrity.ts"
import { progressTopicOf } from "./TopicNames.ts"

/** Time between two comparisons of the ends of all topics (ns). Whether the topics exist is checked more frequently. */
const endsCheckInterval = 60_000_000_000n

/** The positions of published events by topic. */
type PublishedPositions = ReadonlyMap<string, ReadonlyArray<{ readonly position: number }>>
/** A topic's checkpoint after a send. */
type Advanced = readonly [topic: string, checkpoint: Control.TopicCheckpoint]

export interface KafkaSession {
  /** Every topic that this session has checked or created. */
  readonly topics: Map<string, TopicInfo>
  /** The checkpoint of each topic for this store and generation, as saved at the broker. */
  readonly checkpoints: Map<string, Control.TopicCheckpoint>
  /** The number of partitions over which a topic's keys are spread. */
  readonly usedPartitions: (topic: string) => number
  /** Largest batch that a topic accepts, bytes. */
  readonly limitOf: (topic: string) => number
  /** Creates missing topics, and saves the checkpoint of each new topic at the broker before anything is sent to it. */
  readonly ensure: (topics: Iterable<KafkaTopic>) => Effect.Effect<void, SinkError>
  /** Fails if one of these topics, or any topic of this session, lost published events. */
  readonly requireIntact: (topics: ReadonlyArray<string>) => Effect.Effect<void, SinkError>
  /** Sends messages, none of them to event topics. */
  readonly send: (messages: ReadonlyArray<KafkaMessage>) => Effect.Effect<void, SinkError>
  /**
   * Sends messages to event topics, then the new topic checkpoints, then `last`. Without transactions this order ensures
   * that a checkpoint is never durable before its events. Returns where the events are, as far as the broker reports it.
   */
  readonly sendEvents: (
    messages: ReadonlyArray<KafkaMessage>,
    published: PublishedPositions,
    last?: (places: ReadonlyArray<EventPlaces>) => KafkaMessage
  ) => Effect.Effect<ReadonlyArray<EventPlaces>, SinkError>
}

const failOn = (found: Effect.Effect<Refused | null, SinkError>): Effect.Effect<void, SinkError> =>
  Effect.flatMap(found, (reason) => reason === null ? Effect.void : new SinkError({ reason }))

/**
 * The sessions of one sink, of which at most one is open. `template`: the template of topic names. `transactionalId`: null
 * for brokers without transactions.
 */
export const make = Effect.fnUntraced(function*(client: KafkaClient, template: string, transactionalId: string | null) {
  const current = yield* ScopedRef.make((): KafkaSession | null => null)
  const close = ScopedRef.set(current, Effect.succeed(null))
  /** Lowered when a broker rejects a batch that its configuration allows. */
  let maxBatchBytes = Number.POSITIVE_INFINITY

  const makeSession = Effect.fnUntraced(function*(identity: LogIdentity) {
    const topics: KafkaSession["topics"] = new Map()
    const checkpoints: KafkaSession["checkpoints"] = new Map()
    /** Topics with unused partitions: the number of all their partitions, and whether the warning was logged. */
    const unusedPartitions = new Map<string, { readonly partitions: number; readonly warned: boolean }>()

    const usedPartitions = (topic: string) => checkpoints.get(topic)?.partitions ?? topics.get(topic)?.partitions ?? 1
    const noteUnused = (topic: string, { partitions }: TopicInfo) => {
      if (usedPartitions(topic) < partitions) unusedPartitions.set(topic, { partitions, warned: false })
    }
    const producer = yield* Effect.interruptible(client.producer(transactionalId, usedPartitions))
    /** When the ends of all topics were last compared, in monotonic ns. `open` makes the first comparison. */
    let endsCheckedAt = yield* Clock.monotonicTimeNanos

    const warnUnusedPartitions = Effect.suspend(() =>
      Effect.forEach(unusedPartitions, ([topic, { partitions, warned }]) => {
        if (warned) return Effect.void
        unusedPartitions.set(topic, { partitions, warned: true })
        return Effect.logWarning(
          `topic ${topic} has ${partitions} partitions, but events still go to the first ` +
            `${checkpoints.get(topic)?.partitions}, so that each record's events stay in order. ` +
            "`rollcall store adopt` publishes every live record again, over all partitions"
        )
      }, { discard: true })
    )

    const limitOf = (topic: string) => Math.min(maxBatchBytes, topics.get(topic)?.batchBytes ?? maxBatchBytes)

    /** A failure or an interruption leaves the producer in an unknown state, so the session is closed. */
    const send = (messages: ReadonlyArray<KafkaMessage>, closing?: Parameters<KafkaProducer["send"]>[1]) =>
      producer.send(splitIntoSends(messages, limitOf), closing).pipe(
        Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : close),
        Effect.catchReason("SinkError", "Unreachable", (reason, error) => {
          if (!isBatchTooLarge(reason)) return Effect.fail(error)
          maxBatchBytes = Math.max(16_384, Math.min(maxBatchBytes, 1_048_588) / 2)
          return Effect.fail(unreachable(
            `publishing to Kafka: the broker rejected a batch as too large; the new limit is ${maxBatchBytes} bytes`
          ))
        })
      )

    /** Skips topics without published events, and the progress topic, because progress is published again anyway. */
    const checkTopics = (names: ReadonlyArray<string>, depth?: TopicIntegrity.CheckDepth) =>
      failOn(TopicIntegrity.findLostTopic(client, checkpoints, names, depth))

    const requireIntact: KafkaSession["requireIntact"] = Effect.fnUntraced(function*(names) {
      const now = yield* Clock.monotonicTimeNanos
      const isTime = now - endsCheckedAt > endsCheckInterval
      yield* checkTopics([...topics.keys(), ...names], isTime ? "ends" : "existence")
      if (isTime) endsCheckedAt = now
    })

    /** kafkajs retries a send to a deleted topic as if the broker were unavailable, so a slow send checks the topics. */
    const watchTopics: Effect.Effect<never, SinkError> = Effect.sleep("2 seconds").pipe(
      Effect.andThen(Effect.suspend(() => checkTopics([...topics.keys()]))),
      Effect.catchReason("SinkError", "Unreachable", () => Effect.void),
      Effect.forever({ disableYield: true })
    )

    const ensure: KafkaSession["ensure"] = Effect.fnUntraced(function*(needed) {
      const unchecked = new Map<string, KafkaTopic>()
      for (const topic of needed) if (!topics.has(topic.name)) unchecked.set(topic.name, topic)
      if (unchecked.size === 0) return
      yield* checkTopics([...unchecked.keys()])
      yield* failOn(Effect.succeed(TopicIntegrity.findOtherForm(checkpoints, unchecked.values())))
      if (identity.generation === 1) {
        const events = [...unchecked.keys()].filter((name) => name !== progressTopicOf(template))
        yield* failOn(TopicIntegrity.findForeignTopics(client, template, checkpoints, events))
      }
      const messages: Array<KafkaMessage> = []
      for (const [name, info] of yield* ensureTopics(client, [...unchecked.values()])) {
        topics.set(name, info)
        const known = checkpoints.get(name)
        const { form } = unchecked.get(name) ?? {}
        noteUnused(name, info)
        const kept = known !== undefined && known.partitions <= info.partitions ? known : null
        if (kept !== null && kept.form === form) continue
        const checkpoint = { ...kept ?? TopicIntegrity.emptyCheckpoint(info.partitions), form }
        checkpoints.set(name, checkpoint)
        messages.push(Control.topicCheckpointMessage(template, identity, name, checkpoint))
      }
      if (messages.length > 0) yield* send(messages)
    })

    /** The checkpoints of the topics after a send, or the error if one of the topics lost messages. */
    const advance = (
      appended: ReadonlyArray<PlacedBatch>,
      published: PublishedPositions
    ): ReadonlyArray<Advanced> | SinkError => {
      const advanced: Array<Advanced> = []
      for (const [topic, batches] of Map.groupBy(appended, ({ topic }) => topic)) {
        const before = checkpoints.get(topic)
        if (before === undefined) continue
        const positions = (published.get(topic) ?? []).map(({ position }) => position)
        const after = TopicIntegrity.advanceCheckpoint(before, positions, batches)
        if (after === null) return new SinkError({ reason: TopicIntegrity.topicLost(topic, before, true) })
        advanced.push([topic, after])
      }
      return advanced
    }

    const sendEvents: KafkaSession["sendEvents"] = Effect.fnUntraced(function*(messages, published, last) {
      let saved: ReadonlyArray<Advanced> = []
      let places: ReadonlyArray<EventPlaces> = []
      const closing = (appended: ReadonlyArray<PlacedBatch>) => {
        const advanced = advance(appended, published)
        if (advanced instanceof SinkError) return advanced
        saved = advanced
        places = appended.filter(({ positions }) => positions.length > 0)
        const saves = advanced.map(([topic, own]) => Control.topicCheckpointMessage(template, identity, topic, own))
        return splitIntoSends(last === undefined ? saves : [...saves, last(places)], limitOf)
      }
      yield* Effect.raceFirst(send(messages, closing), watchTopics)
      for (const [topic, own] of saved) checkpoints.set(topic, own)
      yield* warnUnusedPartitions
      return places
    })

    return {
      topics,
      checkpoints,
      usedPartitions,
      limitOf,
      ensure,
      requireIntact,
      send,
      sendEvents
    } satisfies KafkaSession
  })

  return {
    close,
    /** The open session; fails if there is none. */
    current: Effect.flatMap(
      ScopedRef.get(current),
      (session) =>
        session === null
          ? Effect.fail(unreachable("publishing to Kafka: an earlier failure closed the producer"))
          : Effect.succeed(session)
    ),
    open: (identity: LogIdentity) => ScopedRef.set(current, makeSession(identity))
  }
})
