/**
 * Compares each event topic with its checkpoint. Detects topics that were deleted, recreated or truncated, even while Rollcall
 * was stopped, and topics without a checkpoint that hold messages. Also finds out whether a topic has events in another form than the
 * configured one.
 *
 * Invariants
 * 1. The end of a partition never moves back. If it does, the topic was recreated or lost messages   (I1)
 *
 * Gotchas
 * - kafkajs reads the ends that a `read_committed` reader sees. They appear shortly after a commit, and do not move while any
 *   producer's transaction is open. A topic is therefore compared several times before it is reported as lost.
 * - Retention and compaction move the beginning of a partition, never its end.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { Refused, type SinkError } from "../Sink.ts"
import type { TopicCheckpoint } from "./ControlTopic.ts"
import type { AppendedBatch } from "./driver/Driver.ts"
import type { KafkaClient } from "./KafkaClient.ts"
import { endOffsetsOf, type KafkaTopic, listExisting } from "./KafkaTopics.ts"
import { controlTopicOf } from "./TopicNames.ts"

type TopicCheckpoints = ReadonlyMap<string, TopicCheckpoint>

/** The checkpoint of a topic to which nothing was published yet. */
export const emptyCheckpoint = (partitions: number): TopicCheckpoint => ({
  partitions,
  ends: [],
  events: 0,
  first: 0,
  last: 0
})

/** The checkpoint after publishing events at these positions and offsets; null if the end of a partition moved back. */
export const advanceCheckpoint = (
  checkpoint: TopicCheckpoint,
  positions: ReadonlyArray<number>,
  appended: ReadonlyArray<AppendedBatch>
): TopicCheckpoint | null => {
  const ends = [...checkpoint.ends]
  for (const { offset, partition } of appended) {
    if (offset < (ends[partition] ?? 0)) return null
    while (ends.length < partition) ends.push(0)
    ends[partition] = offset + 1
  }
  const [first, last] = [positions[0] ?? checkpoint.first, positions.at(-1) ?? checkpoint.last]
  return { ...checkpoint, ends, events: checkpoint.events + positions.length, first: checkpoint.first || first, last }
}

const adopt =
  "stop Rollcall and run `rollcall store adopt`, which publishes every live record again in a later generation"

/** The error for a topic that lost published events. */
export const topicLost = (topic: string, { events, first, last }: TopicCheckpoint, exists: boolean): Refused =>
  new Refused({
    message: exists
      ? `topic ${topic} was deleted and created again, or lost messages: some or all of the ${events} events published ` +
        `there (positions ${first} to ${last}) are missing`
      : `topic ${topic} was deleted: the ${events} events published there (positions ${first} to ${last}) are missing`,
    hint:
      `publishing stays stopped so that no consumer treats the remaining events as complete. To publish again, ${adopt}. ` +
      "If the topic was deleted because its integration was erased, remove the integration from the configuration and " +
      "start Rollcall again."
  })

/** `existence`: checks only whether topics exist. `ends`: also whether the ends of their partitions have moved back. */
export type CheckDepth = "existence" | "ends"

const compareTopics = Effect.fnUntraced(function*(
  client: KafkaClient,
  checkpoints: TopicCheckpoints,
  topics: ReadonlyArray<string>,
  depth: CheckDepth
) {
  const known = [...new Set(topics)].flatMap((topic) => {
    const own = checkpoints.get(topic)
    return own !== undefined && own.ends.some((end) => end > 0) ? [[topic, own] as const] : []
  })
  const names = known.map(([topic]) => topic)
  if (depth === "existence") {
    const existing = yield* listExisting(client, names)
    const [lost] = known.filter(([topic]) => !existing.has(topic))
    return lost === undefined ? null : topicLost(...lost, false)
  }
  const ends = yield* endOffsetsOf(client, names)
  for (const [topic, own] of known) {
    const now = ends.get(topic)
    if (now === undefined) return topicLost(topic, own, false)
    if (own.ends.some((end, partition) => (now[partition] ?? 0) < end)) return topicLost(topic, own, true)
  }
  return null
})

/** The error for the first of these topics that lost published events; null if none did. */
export const findLostTopic = (
  client: KafkaClient,
  checkpoints: TopicCheckpoints,
  topics: ReadonlyArray<string>,
  depth: CheckDepth = "ends"
): Effect.Effect<Refused | null, SinkError> =>
  Effect.repeat(compareTopics(client, checkpoints, topics, depth), {
    until: (found) => found === null,
    times: 4,
    schedule: Schedule.spaced("1 second")
  })

/** The error for the first of these topics whose events were published in another form; null if there is none. */
export const findOtherForm = (
  checkpoints: TopicCheckpoints,
  topics: Iterable<Pick<KafkaTopic, "name" | "form">>
): Refused | null => {
  const words = (form: string | undefined) => form ?? "the default form"
  for (const { form, name } of topics) {
    const own = checkpoints.get(name)
    if (own === undefined || own.events === 0 || own.form === form) continue
    return new Refused({
      message: `topic ${name} holds ${own.events} events in ${words(own.form)}, and the configuration asks for ${
        words(form)
      }`,
      hint:
        "set kafka.format, kafka.schemas and kafka.schemaRegistry as before; or set ROLLCALL_TOPIC to other topics, stop Rollcall and run " +
        "`rollcall store adopt`, which publishes every live record again. After `store adopt` without other topics, consumers " +
        "find both forms in the same topics."
    })
  }
  return null
}

/** The error for those of these topics that hold messages but have no checkpoint; null if there are none. */
export const findForeignTopics = Effect.fnUntraced(function*(
  client: KafkaClient,
  template: string,
  checkpoints: TopicCheckpoints,
  topics: ReadonlyArray<string>
): Effect.fn.Return<Refused | null, SinkError> {
  const ends = yield* endOffsetsOf(client, topics.filter((topic) => !checkpoints.has(topic)))
  const used = [...ends].flatMap(([topic, ends]) => ends.some((end) => end > 0) ? [topic] : [])
  const control = controlTopicOf(template)
  return used.length === 0 ? null : new Refused({
    message: `${used.join(", ")}: holds records, but ${control} does not show that this store published them`,
    hint:
      `either ${control} was deleted, or another program publishes to the topic. Bring back ${control}; or ${adopt}; or set ` +
      "ROLLCALL_TOPIC to other topics."
  })
})
