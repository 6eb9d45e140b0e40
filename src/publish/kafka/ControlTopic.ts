/**
 * What a relay remembers at the broker itself, in a compacted topic of its own (`rollcall.relay` for the default template),
 * by the template of topic names: which store published last and how far, and of each topic what was published there.
 *
 * Invariants
 * 1. Every store that publishes under a template finds the record of whoever published there before   (X14)
 * 2. Of a generation the keys of a topic are spread over as many partitions as it had at first: the events of a record stay
 *    in one partition, in order, when partitions are added   (I5, K2)
 * 3. A topic is written down here before anything is published to it: what a topic holds although nothing is written down
 *    about it was published by somebody else
 *
 * Gotchas
 * - Who died inside its last send keeps readers of this topic waiting until the broker ends its transaction: the next
 *   `open` under the same template does that at once.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import type { LogIdentity } from "../../domain/ChangeEvent.ts"
import { Refused, type SinkCheckpoint, SinkError } from "../Sink.ts"
import type { KafkaClient } from "./KafkaClient.ts"
import { controlTopicOf, type KafkaMessage } from "./KafkaMessage.ts"
import type { KafkaTopic } from "./KafkaTopics.ts"

/** Small segments: only what is not in the newest one is compacted, and all that is left is read to recall. */
export const controlTopic = (template: string): KafkaTopic => ({
  name: controlTopicOf(template),
  keeps: "latest",
  partitions: 1,
  settings: { "segment.bytes": "1048576", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.01" }
})

const CheckpointRecord = Schema.fromJsonString(
  Schema.Struct({
    store: Schema.String,
    generation: Schema.Int,
    position: Schema.Int,
    chain: Schema.String
  })
)

const TopicCheckpoint = Schema.Struct({
  /** Over how many partitions keys are spread. */
  partitions: Schema.Int,
  /** By partition: an offset that its end has reached; 0 or absent: nothing was published there. */
  ends: Schema.Array(Schema.Int),
  /** How many events were published there, and the positions of the first and the last; 0 = none. */
  events: Schema.Int,
  first: Schema.Int,
  last: Schema.Int
})
/** What was published to a topic, by one store in one generation. */
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
  headers: { "content-type": "application/json" },
  partition: 0
})
const topicKeys = (template: string) => `${template}/topics/`

/** Something to send, so that the broker fences whoever sent before. */
export const openedMessage = (template: string): KafkaMessage => message(template, `${template}/opened`, randomUUID())
export const checkpointMessage = (template: string, published: SinkCheckpoint): KafkaMessage =>
  message(template, template, encodePublished(published))
export const topicCheckpointMessage = (
  template: string,
  { generation, store }: LogIdentity,
  topic: string,
  memory: TopicCheckpoint
): KafkaMessage =>
  message(template, `${topicKeys(template)}${topic}`, encodeTopic({ store, generation, topic, ...memory }))

/** What the newest message of a key says; null if there is none. */
const decodeNewest = <A>(
  template: string,
  key: string,
  value: string | undefined,
  decode: (value: unknown) => Option.Option<A>
): Effect.Effect<A | null, SinkError> =>
  value === undefined ? Effect.succeed(null) : Option.match(decode(value), {
    onNone: () =>
      Effect.fail(
        new SinkError({
          reason: new Refused({
            message: `Rollcall did not write the newest record of ${key} on ${controlTopicOf(template)}`,
            hint: `find out who else writes to ${controlTopicOf(template)}.`
          })
        })
      ),
    onSome: Effect.succeed
  })

export interface ControlState {
  /** By whichever store. */
  readonly published: SinkCheckpoint | null
  /** By name: what `identity` published, in its generation; all that it published to. */
  readonly topics: (identity: LogIdentity) => Map<string, TopicCheckpoint>
}

/** Reads the topic; it must be there. */
export const readControlTopic = Effect.fn("KafkaControl.recall")(function*(
  client: KafkaClient,
  template: string
): Effect.fn.Return<ControlState, SinkError> {
  const newest = new Map<string, string | undefined>()
  const ofTopics = topicKeys(template)
  yield* client.scan(controlTopicOf(template), `rollcall-relay-${randomUUID()}`, (messages) =>
    Effect.sync(() => {
      for (const { key, value } of messages) {
        if (key === template || key?.startsWith(ofTopics) === true) newest.set(key, value)
      }
    }))
  const published = yield* decodeNewest(
    template,
    template,
    newest.get(template),
    Schema.decodeUnknownOption(CheckpointRecord)
  )
  newest.delete(template)
  const records: Array<typeof TopicCheckpointRecord.Type> = []
  for (const [key, value] of newest) {
    const record = yield* decodeNewest(template, key, value, Schema.decodeUnknownOption(TopicCheckpointRecord))
    if (record !== null) records.push(record)
  }
  return {
    published,
    topics: ({ generation, store }) =>
      new Map(
        records.filter((record) => record.store === store && record.generation === generation)
          .map(({ topic, ...memory }) => [topic, memory])
      )
  }
})
