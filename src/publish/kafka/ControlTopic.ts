/**
 * The relay's state at the broker: which store published last, up to which position, and a checkpoint for each topic. Each template of
 * topic names has one compacted control topic for it; that of the default template is `rollcall.relay`.
 *
 * Invariants
 * 1. Every store that publishes under a template finds the checkpoint of the store that published there before   (X14)
 * 2. Within a generation, the keys of a topic are spread over as many partitions as the topic had at first. So the events of a record stay
 *    in one partition, in order, when partitions are added   (I5, K2)
 * 3. A topic is recorded here before anything is published to it. So if a topic holds messages and has no checkpoint here, another program
 *    published them
 *
 * Gotchas
 * - If a relay dies during a send, readers of this topic wait until the broker ends the relay's transaction. The next `open`
 *   under the same template ends it immediately.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import type { LogIdentity } from "../../domain/ChangeEvent.ts"
import { refused, type SinkCheckpoint, type SinkError } from "../Sink.ts"
import type { KafkaClient } from "./KafkaClient.ts"
import { type KafkaMessage, plainHeaders } from "./KafkaMessage.ts"
import type { KafkaTopic } from "./KafkaTopics.ts"
import { controlTopicOf } from "./TopicNames.ts"

/** Segments are small because the newest one is never compacted, and `readControlTopic` reads all that remains. */
export const controlTopic = (template: string, replicationFactor?: number): KafkaTopic => ({
  name: controlTopicOf(template),
  keeps: "latest",
  partitions: 1,
  replicationFactor,
  settings: { "segment.bytes": "1048576", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.01" }
})

const CheckpointRecord = Schema.fromJsonString(
  Schema.Struct({
    store: Schema.String,
    generation: Schema.Int,
    position: Schema.Int,
    chain: Schema.String,
    /** Where the events of the batch are; left out if unknown or too long. */
    published: Schema.optionalKey(Schema.Struct({
      at: Schema.Int,
      places: Schema.Array(Schema.Struct({
        topic: Schema.String,
        partition: Schema.Int,
        offset: Schema.Int,
        positions: Schema.Array(Schema.Int)
      }))
    }))
  })
)

/** If the places need more text than this, they are left out: the message must fit into the smallest record batch that a broker accepts. */
const longestCheckpoint = 8_000

const TopicCheckpoint = Schema.Struct({
  /** The number of partitions over which keys are spread. */
  partitions: Schema.Int,
  /** For each partition, an offset that its end has reached; 0 or absent if nothing was published to it. */
  ends: Schema.Array(Schema.Int),
  /** The number of published events, and the positions of the first and the last; 0 if there are none. */
  events: Schema.Int,
  first: Schema.Int,
  last: Schema.Int,
  /** How the values of the published events are encoded, in words; absent for the default. */
  form: Schema.optional(Schema.String)
})
/** Describes what one store published to a topic in one generation. */
export type TopicCheckpoint = typeof TopicCheckpoint.Type
const TopicCheckpointRecord = Schema.fromJsonString(
  Schema.Struct({ store: Schema.String, generation: Schema.Int, topic: Schema.String, ...TopicCheckpoint.fields })
)

const encodePublished = Schema.encodeSync(CheckpointRecord)
const encodeTopic = Schema.encodeSync(TopicCheckpointRecord)

const message = (template: string, key: string, value: string): KafkaMessage => ({
  topic: controlTopicOf(template),
  key,
  value: Buffer.from(value),
  headers: plainHeaders,
  partition: 0
})
const topicKeys = (template: string) => `${template}/topics/`

/** A message to send when opening, so that the broker fences every earlier producer. */
export const openedMessage = (template: string): KafkaMessage => message(template, `${template}/opened`, randomUUID())
export const checkpointMessage = (template: string, { published, ...checkpoint }: SinkCheckpoint): KafkaMessage => {
  const bare = encodePublished(checkpoint)
  if (published === undefined || published.places.length === 0) return message(template, template, bare)
  const whole = encodePublished({ ...checkpoint, published })
  return message(template, template, whole.length > longestCheckpoint ? bare : whole)
}
export const topicCheckpointMessage = (
  template: string,
  { generation, store }: LogIdentity,
  topic: string,
  checkpoint: TopicCheckpoint
): KafkaMessage =>
  message(template, `${topicKeys(template)}${topic}`, encodeTopic({ store, generation, topic, ...checkpoint }))

/** Decodes the newest message of a key; null if there is none. */
const decodeNewest = <A>(
  template: string,
  key: string,
  value: string | undefined,
  schema: Schema.Codec<A, unknown>
): Effect.Effect<A | null, SinkError> => {
  if (value === undefined) return Effect.succeed(null)
  const topic = controlTopicOf(template)
  return Effect.mapError(
    Schema.decodeUnknownEffect(schema)(value),
    () =>
      refused(
        `the newest message with key ${key} in topic ${topic} was not written by Rollcall`,
        `find the other program that writes to ${topic}, and stop it.`
      )
  )
}

/** Reads the control topic, which must exist. */
export const readControlTopic = Effect.fn("ControlTopic.read")(function*(
  client: KafkaClient,
  template: string
) {
  const newest = new Map<string, string | undefined>()
  const topicPrefix = topicKeys(template)
  yield* client.scan(controlTopicOf(template), `rollcall-relay-${randomUUID()}`, (messages) =>
    Effect.sync(() => {
      for (const { key, value } of messages) {
        if (key === template || key?.startsWith(topicPrefix) === true) newest.set(key, value)
      }
    }))
  const published = yield* decodeNewest(template, template, newest.get(template), CheckpointRecord)
  newest.delete(template)
  const records: Array<typeof TopicCheckpointRecord.Type> = []
  for (const [key, value] of newest) {
    const record = yield* decodeNewest(template, key, value, TopicCheckpointRecord)
    if (record !== null) records.push(record)
  }
  return {
    /** The last checkpoint, of any store. */
    published,
    /** The checkpoints, by topic name, of every topic to which a store published in its generation. */
    topics: ({ generation, store }: LogIdentity): Map<string, TopicCheckpoint> =>
      new Map(
        records.filter((record) => record.store === store && record.generation === generation)
          .map(({ topic, ...checkpoint }) => [topic, checkpoint])
      )
  }
})
