/**
 * Makes the topics that are missing, checks those that are there, and tells what of each matters to who writes to it.
 *
 * Gotchas
 * - Asking kafkajs about a topic that does not exist takes over a minute: topics are listed first.
 * - Who may not read a topic's configuration is not stopped by that: the broker's usual limit is assumed.
 */
import * as Effect from "effect/Effect"
import kafkajs from "kafkajs"
import { Refused, SinkError } from "../Sink.ts"
import type { KafkaClient } from "./KafkaClient.ts"

export interface KafkaTopic {
  readonly name: string
  /** `log` keeps by time, `latest` keeps the newest value of each key. */
  readonly keeps: "log" | "latest"
  readonly partitions: number
  /** Further settings a new topic gets. */
  readonly settings?: Readonly<Record<string, string>>
}

/** A topic as it is at the broker. */
export interface TopicInfo {
  /** Largest batch it takes. */
  readonly batchBytes: number
  readonly partitions: number
}

/** The broker's own default of `max.message.bytes`. */
const defaultBatchBytes = 1_048_588

const configEntriesOf = (topic: KafkaTopic, replicas: number) =>
  Object.entries({
    ...(topic.keeps === "latest" ? { "cleanup.policy": "compact" } : {}),
    ...(replicas > 2 ? { "min.insync.replicas": "2" } : {}),
    ...topic.settings
  }).map(([name, value]) => ({ name, value }))

const notCompacted = (name: string) =>
  new SinkError({
    reason: new Refused({
      message: `topic ${name} is not compacted`,
      hint: `set cleanup.policy=compact on ${name}, or delete it and let Rollcall make it.`
    })
  })

const describeConfigs = (client: KafkaClient, names: ReadonlyArray<string>) =>
  client.admin("reading the topics' configuration", async (admin) => {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: names.map((name) => ({
        type: kafkajs.ConfigResourceTypes.TOPIC,
        name,
        configNames: ["cleanup.policy", "max.message.bytes"]
      }))
    })
    return new Map(resources.map((resource) => [
      resource.resourceName,
      new Map(resource.configEntries.map((entry) => [entry.configName, entry.configValue]))
    ]))
  }).pipe(
    Effect.catchReason("SinkError", "Refused", (reason) =>
      Effect.as(
        Effect.logWarning(`topics are not checked: ${reason.message}`),
        new Map<string, ReadonlyMap<string, string>>()
      ))
  )

/** Makes what is missing, or only asks whether it may, and tells what was missing. Replicas: three, or one per broker where there are fewer. */
const create = Effect.fnUntraced(function*(
  client: KafkaClient,
  topics: ReadonlyArray<KafkaTopic>,
  { validateOnly }: { readonly validateOnly: boolean }
) {
  const doing = validateOnly ? "checking" : "creating"
  return yield* client.admin(`${doing} topics ${topics.map((topic) => topic.name).join(", ")}`, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const missing = topics.filter((topic) => !existing.has(topic.name))
    if (missing.length === 0) return missing
    const replicas = Math.min(3, (await admin.describeCluster()).brokers.length)
    await admin.createTopics({
      validateOnly,
      waitForLeaders: !validateOnly,
      topics: missing.map((topic) => ({
        topic: topic.name,
        numPartitions: topic.partitions,
        replicationFactor: replicas,
        configEntries: configEntriesOf(topic, replicas)
      }))
    })
    return missing
  })
})

const partitionsOf = (client: KafkaClient, names: ReadonlyArray<string>) =>
  client.admin("counting the topics' partitions", async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [...names] })
    return new Map(topics.map(({ name, partitions }) => [name, partitions.length]))
  })

/** Which of these topics are there: one request, however many they are. */
export const listExisting = (client: KafkaClient, names: ReadonlyArray<string>) =>
  names.length === 0
    ? Effect.succeed<ReadonlySet<string>>(new Set())
    : client.admin("listing topics", async (admin) => {
      const listed = new Set(await admin.listTopics())
      return new Set(names.filter((name) => listed.has(name)))
    })

/** By name of each topic that is there: the offset behind the last committed message of each partition. Three requests a topic. */
export const endOffsetsOf = Effect.fnUntraced(function*(client: KafkaClient, names: ReadonlyArray<string>) {
  const existing = yield* listExisting(client, names)
  if (existing.size === 0) return new Map<string, ReadonlyArray<number>>()
  const ends = yield* client.admin(
    "reading how far topics go",
    (admin) =>
      Promise.all(Array.from(existing, async (name): Promise<readonly [string, ReadonlyArray<number>]> => {
        const offsets = await admin.fetchTopicOffsets(name)
        return [name, offsets.toSorted((one, other) => one.partition - other.partition).map(({ high }) => Number(high))]
      }))
  )
  return new Map(ends)
})

const topicInfoOf = Effect.fnUntraced(function*(client: KafkaClient, topics: ReadonlyArray<KafkaTopic>) {
  const names = topics.map((topic) => topic.name)
  const described = yield* describeConfigs(client, names)
  for (const { name, keeps } of topics) {
    const policy = described.get(name)?.get("cleanup.policy")
    if (keeps === "latest" && policy !== undefined && !policy.split(",").includes("compact")) {
      return yield* notCompacted(name)
    }
  }
  const counted = yield* partitionsOf(client, names)
  return new Map(topics.map(({ name, partitions }): [string, TopicInfo] => [name, {
    batchBytes: Number(described.get(name)?.get("max.message.bytes") ?? defaultBatchBytes),
    partitions: counted.get(name) ?? partitions
  }]))
})

/** Makes nothing: the names of the topics that `ensure` would make, once the broker has said that it may; and the others. */
export const inspectTopics = Effect.fn("KafkaTopics.look")(function*(
  client: KafkaClient,
  topics: ReadonlyArray<KafkaTopic>
): Effect.fn.Return<
  { readonly missing: ReadonlyArray<string>; readonly present: ReadonlyMap<string, TopicInfo> },
  SinkError
> {
  const absent = yield* create(client, topics, { validateOnly: true })
  const others = topics.filter((topic) => !absent.includes(topic))
  const present = others.length === 0 ? new Map<string, TopicInfo>() : yield* topicInfoOf(client, others)
  return { missing: absent.map(({ name }) => name), present }
})

export const ensureTopics = Effect.fn("KafkaTopics.ensure")(function*(
  client: KafkaClient,
  topics: ReadonlyArray<KafkaTopic>
): Effect.fn.Return<ReadonlyMap<string, TopicInfo>, SinkError> {
  if (topics.length === 0) return new Map()
  yield* create(client, topics, { validateOnly: false })
  return yield* topicInfoOf(client, topics)
})
