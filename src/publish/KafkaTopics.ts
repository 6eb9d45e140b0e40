/**
 * Makes the topics that are missing, checks those that are there, and tells how large a batch each takes.
 *
 * Gotchas
 * - Asking kafkajs about a topic that does not exist takes over a minute: topics are listed first.
 * - Who may not read a topic's configuration is not stopped by that: the broker's usual limit is assumed.
 */
import * as Effect from "effect/Effect"
import kafkajs from "kafkajs"
import type { KafkaClient } from "./KafkaClient.ts"
import { Refused, SinkError } from "./Sink.ts"

export interface KafkaTopic {
  readonly name: string
  /** `log` keeps by time, `latest` keeps the newest value of each key. */
  readonly keeps: "log" | "latest"
  readonly partitions: number
  /** Further settings a new topic gets. */
  readonly settings?: Readonly<Record<string, string>>
}

/** The broker's own default of `max.message.bytes`. */
const usualBatchBytes = 1_048_588

const entriesOf = (topic: KafkaTopic, replicas: number) =>
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

const describe = (client: KafkaClient, names: ReadonlyArray<string>) =>
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
        configEntries: entriesOf(topic, replicas)
      }))
    })
    return missing
  })
})

const limitsOf = Effect.fnUntraced(function*(client: KafkaClient, topics: ReadonlyArray<KafkaTopic>) {
  const described = yield* describe(client, topics.map((topic) => topic.name))
  for (const { name, keeps } of topics) {
    const policy = described.get(name)?.get("cleanup.policy")
    if (keeps === "latest" && policy !== undefined && !policy.split(",").includes("compact")) {
      return yield* notCompacted(name)
    }
  }
  return new Map(topics.map(({ name }) => [
    name,
    Number(described.get(name)?.get("max.message.bytes") ?? usualBatchBytes)
  ]))
})

/** Makes nothing: the names of the topics that `ensure` would make, once the broker has said that it may. */
export const missing = Effect.fn("KafkaTopics.missing")(function*(
  client: KafkaClient,
  topics: ReadonlyArray<KafkaTopic>
): Effect.fn.Return<ReadonlyArray<string>, SinkError> {
  const absent = yield* create(client, topics, { validateOnly: true })
  const present = topics.filter((topic) => !absent.includes(topic))
  if (present.length > 0) yield* limitsOf(client, present)
  return absent.map(({ name }) => name)
})

/** Returns the largest batch in bytes that each topic takes. */
export const ensure = Effect.fn("KafkaTopics.ensure")(function*(
  client: KafkaClient,
  topics: ReadonlyArray<KafkaTopic>
): Effect.fn.Return<ReadonlyMap<string, number>, SinkError> {
  if (topics.length === 0) return new Map()
  yield* create(client, topics, { validateOnly: false })
  return yield* limitsOf(client, topics)
})
