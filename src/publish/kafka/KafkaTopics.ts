/**
 * Creates missing topics, checks existing ones, and returns what a producer must know about each.
 *
 * Gotchas
 * - kafkajs takes over a minute to report that a topic does not exist, so topics are listed first.
 * - If the principal may not read a topic's configuration, the broker's default batch limit is assumed.
 */
import * as Effect from "effect/Effect"
import kafkajs from "kafkajs"
import { refused, SinkError, Unreachable } from "../Sink.ts"
import type { KafkaClient } from "./KafkaClient.ts"
import { isReplicationRefused } from "./KafkaErrors.ts"

export interface KafkaTopic {
  readonly name: string
  /** `log` keeps messages for a time, `latest` keeps the newest value of each key. */
  readonly keeps: "log" | "latest"
  readonly partitions: number
  /** Copies of a new topic; undefined: three, or one per broker if there are fewer brokers. */
  readonly replicationFactor?: number | undefined
  /** How the values are encoded, in words; undefined for the default. All events of a generation have one form. */
  readonly form?: string | undefined
  /** Additional settings of a new topic. */
  readonly settings?: Readonly<Record<string, string>>
}

/** A topic at the broker. */
export interface TopicInfo {
  /** Largest batch that the topic accepts. */
  readonly batchBytes: number
  readonly partitions: number
  /** Copies of each partition. */
  readonly replicas: number
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
  refused(
    `topic ${name} is not compacted`,
    `set cleanup.policy=compact on ${name}, or delete the topic so that Rollcall creates it.`
  )

const describeConfigs = (client: Pick<KafkaClient, "admin">, names: ReadonlyArray<string>) =>
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
        Effect.logWarning(`the topics' configuration is not checked: ${reason.message}`),
        new Map<string, ReadonlyMap<string, string>>()
      ))
  )

/** There are enough brokers for the copies of a topic, but one of them stops or starts: it is listed, and takes no copies. */
const brokerChanging = (doing: string, cause: unknown) =>
  new SinkError({
    reason: new Unreachable({
      message: `${doing}: a broker does not take copies of new topics`,
      cause,
      advice:
        "The broker is stopping or starting. If this continues, the cluster does not allow this number of copies: set " +
        "kafka.replicationFactor to one that it allows, or create the topics yourself."
    })
  })

/** Creates these topics, or only checks whether the broker would create them. Returns the topics. */
const create = Effect.fnUntraced(function*(
  client: Pick<KafkaClient, "admin">,
  topics: ReadonlyArray<KafkaTopic>,
  { validateOnly }: { readonly validateOnly: boolean }
) {
  const doing = `${validateOnly ? "checking" : "creating"} topics ${topics.map((topic) => topic.name).join(", ")}`
  return yield* client.admin(doing, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const missing = topics.filter((topic) => !existing.has(topic.name))
    if (missing.length === 0) return missing
    const brokers = (await admin.describeCluster()).brokers.length
    const usualReplicas = Math.min(3, brokers)
    const replicasOf = (topic: KafkaTopic) => topic.replicationFactor ?? usualReplicas
    await admin.createTopics({
      validateOnly,
      waitForLeaders: !validateOnly,
      topics: missing.map((topic) => ({
        topic: topic.name,
        numPartitions: topic.partitions,
        replicationFactor: replicasOf(topic),
        configEntries: configEntriesOf(topic, replicasOf(topic))
      }))
    }).catch((error) => {
      throw isReplicationRefused(error) && missing.every((topic) => replicasOf(topic) <= brokers)
        ? brokerChanging(doing, error)
        : error
    })
    return missing
  })
})

const sizesOf = (client: Pick<KafkaClient, "admin">, names: ReadonlyArray<string>) =>
  client.admin("counting the topics' partitions", async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [...names] })
    return new Map(topics.map(({ name, partitions }) => [name, {
      partitions: partitions.length,
      replicas: Math.min(...partitions.map(({ replicas }) => replicas.length))
    }]))
  })

/** Which of these topics exist; one request for all topics. */
export const listExisting = (client: Pick<KafkaClient, "admin">, names: ReadonlyArray<string>) =>
  names.length === 0
    ? Effect.succeed<ReadonlySet<string>>(new Set())
    : client.admin("listing topics", async (admin) => {
      const listed = new Set(await admin.listTopics())
      return new Set(names.filter((name) => listed.has(name)))
    })

/** For each existing topic: the offset after the last committed message of each partition. Three requests per topic. */
export const endOffsetsOf = Effect.fnUntraced(
  function*(client: Pick<KafkaClient, "admin">, names: ReadonlyArray<string>) {
    const existing = yield* listExisting(client, names)
    if (existing.size === 0) return new Map<string, ReadonlyArray<number>>()
    const ends = yield* client.admin(
      "reading the topics' end offsets",
      (admin) =>
        Promise.all(Array.from(existing, async (name): Promise<readonly [string, ReadonlyArray<number>]> => {
          const offsets = await admin.fetchTopicOffsets(name)
          return [
            name,
            offsets.toSorted((one, other) => one.partition - other.partition).map(({ high }) => Number(high))
          ]
        }))
    )
    return new Map(ends)
  }
)

const topicInfoOf = Effect.fnUntraced(function*(client: Pick<KafkaClient, "admin">, topics: ReadonlyArray<KafkaTopic>) {
  const names = topics.map((topic) => topic.name)
  const described = yield* describeConfigs(client, names)
  for (const { name, keeps } of topics) {
    const policy = described.get(name)?.get("cleanup.policy")
    if (keeps === "latest" && policy !== undefined && !policy.split(",").includes("compact")) {
      return yield* notCompacted(name)
    }
  }
  const sizes = yield* sizesOf(client, names)
  return new Map(topics.map(({ name, partitions, replicationFactor = 1 }): [string, TopicInfo] => [name, {
    batchBytes: Number(described.get(name)?.get("max.message.bytes") ?? defaultBatchBytes),
    ...sizes.get(name) ?? { partitions, replicas: replicationFactor }
  }]))
})

/** Creates nothing: returns the topics that `ensureTopics` would create, if the broker allows it, and the existing ones. */
export const inspectTopics = Effect.fn("KafkaTopics.inspect")(function*(
  client: Pick<KafkaClient, "admin">,
  topics: ReadonlyArray<KafkaTopic>
): Effect.fn.Return<
  { readonly missing: ReadonlyArray<string>; readonly present: ReadonlyMap<string, TopicInfo> },
  SinkError
> {
  const missing = yield* create(client, topics, { validateOnly: true })
  const existing = topics.filter((topic) => !missing.includes(topic))
  const present = existing.length === 0 ? new Map<string, TopicInfo>() : yield* topicInfoOf(client, existing)
  return { missing: missing.map(({ name }) => name), present }
})

export const ensureTopics = Effect.fn("KafkaTopics.ensure")(function*(
  client: Pick<KafkaClient, "admin">,
  topics: ReadonlyArray<KafkaTopic>
): Effect.fn.Return<ReadonlyMap<string, TopicInfo>, SinkError> {
  if (topics.length === 0) return new Map()
  yield* create(client, topics, { validateOnly: false })
  return yield* topicInfoOf(client, topics)
})
