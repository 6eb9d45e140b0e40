/**
 * Compares what each topic of events holds with what is written down about it: notices topics that were deleted, made again or cut
 * short while Rollcall ran or was stopped, and topics that somebody else published to.
 *
 * Invariants
 * 1. The end of a partition never goes back: where it does, the topic is another one, or lost records   (I1)
 *
 * Gotchas
 * - kafkajs asks for the ends that a `read_committed` reader sees. They follow a commit after a moment, and stand still while
 *   anybody's transaction is open: what is missing is looked for several times before it is believed.
 * - Retention and compaction move the beginning of a partition, never its end.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { Refused, type SinkError } from "../Sink.ts"
import type { TopicCheckpoint } from "./ControlTopic.ts"
import type { AppendedBatch, KafkaClient } from "./KafkaClient.ts"
import { controlTopicOf } from "./KafkaMessage.ts"
import { endOffsetsOf, listExisting } from "./KafkaTopics.ts"

type TopicCheckpoints = ReadonlyMap<string, TopicCheckpoint>

/** A topic to which nothing was published yet. */
export const emptyCheckpoint = (partitions: number): TopicCheckpoint => ({
  partitions,
  ends: [],
  events: 0,
  first: 0,
  last: 0
})

/** With events of these positions, which begin at these offsets; null if a partition went back. */
export const advanceCheckpoint = (
  memory: TopicCheckpoint,
  positions: ReadonlyArray<number>,
  appended: ReadonlyArray<AppendedBatch>
): TopicCheckpoint | null => {
  const ends = [...memory.ends]
  for (const { offset, partition } of appended) {
    if (offset < (ends[partition] ?? 0)) return null
    while (ends.length < partition) ends.push(0)
    ends[partition] = offset + 1
  }
  const [first, last] = [positions[0] ?? memory.first, positions.at(-1) ?? memory.last]
  return { ...memory, ends, events: memory.events + positions.length, first: memory.first || first, last }
}

const adopt =
  "stop Rollcall and run `rollcall store adopt`, which publishes every live record anew, in a later generation"

/** What to tell about a topic that no longer holds what was published there. */
export const topicLost = (topic: string, { events, first, last }: TopicCheckpoint, isThere: boolean): Refused =>
  new Refused({
    message: isThere
      ? `topic ${topic} was deleted and made again, or lost records: of the ${events} events that were published there, ` +
        `of positions ${first} to ${last}, all or some are missing`
      : `topic ${topic} was deleted: the ${events} events that were published there, of positions ${first} to ${last}, are missing`,
    hint:
      `publishing stays stopped, so that no consumer takes what is left for everything. To publish them again, ${adopt}. ` +
      "If the topic was to go because its integration was erased, leave that out of the configuration and start again."
  })

/** How closely to look: whether topics are there, or whether they are as long as they were too. */
export type CheckDepth = "existence" | "ends"

const compareTopics = Effect.fnUntraced(function*(
  client: KafkaClient,
  memory: TopicCheckpoints,
  topics: ReadonlyArray<string>,
  closeness: CheckDepth
) {
  const known = [...new Set(topics)].flatMap((topic) => {
    const own = memory.get(topic)
    return own !== undefined && own.ends.some((end) => end > 0) ? [[topic, own] as const] : []
  })
  const names = known.map(([topic]) => topic)
  if (closeness === "existence") {
    const there = yield* listExisting(client, names)
    const [gone] = known.filter(([topic]) => !there.has(topic))
    return gone === undefined ? null : topicLost(...gone, false)
  }
  const ends = yield* endOffsetsOf(client, names)
  for (const [topic, own] of known) {
    const now = ends.get(topic)
    if (now === undefined) return topicLost(topic, own, false)
    if (own.ends.some((end, partition) => (now[partition] ?? 0) < end)) return topicLost(topic, own, true)
  }
  return null
})

/** Which of these topics no longer holds what was published there; null if all do. */
export const findLostTopic = (
  client: KafkaClient,
  memory: TopicCheckpoints,
  topics: ReadonlyArray<string>,
  closeness: CheckDepth = "ends"
): Effect.Effect<Refused | null, SinkError> =>
  Effect.repeat(compareTopics(client, memory, topics, closeness), {
    until: (found) => found === null,
    times: 4,
    schedule: Schedule.spaced("1 second")
  })

/** Which of these topics hold something although nothing is written down about them; null if none does. */
export const findForeignTopics = Effect.fnUntraced(function*(
  client: KafkaClient,
  template: string,
  memory: TopicCheckpoints,
  topics: ReadonlyArray<string>
): Effect.fn.Return<Refused | null, SinkError> {
  const ends = yield* endOffsetsOf(client, topics.filter((topic) => !memory.has(topic)))
  const used = [...ends].flatMap(([topic, ends]) => ends.some((end) => end > 0) ? [topic] : [])
  const control = controlTopicOf(template)
  return used.length === 0 ? null : new Refused({
    message: `${used.join(", ")}: holds records, and ${control} does not say that this store published them`,
    hint:
      `was ${control} deleted, or is something else publishing there? Bring it back; or ${adopt}; or choose other topics ` +
      "with ROLLCALL_TOPIC."
  })
})
