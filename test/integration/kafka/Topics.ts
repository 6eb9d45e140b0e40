/**
 * Creates, deletes and lists topics.
 *
 * Gotchas
 * - A broker confirms a new topic before its own answers show it, and kafkajs gives up if the first of them does not: `create` waits
 *   until the topic is listed.
 */
import * as Effect from "effect/Effect"
import kafkajs from "kafkajs"
import { until } from "../../fault/kill/Patience.ts"
import { Broker } from "./Broker.ts"

/** Runs `use` with an administrator's connection to the broker. */
export const admin = <A>(use: (admin: kafkajs.Admin) => Promise<A>) =>
  Effect.flatMap(Broker, ({ brokers }) =>
    Effect.acquireUseRelease(
      Effect.sync(() => new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING }).admin()),
      (admin) => Effect.promise(() => admin.connect().then(() => use(admin))),
      (admin) => Effect.promise(() => admin.disconnect())
    ))

export const list = admin((admin) => admin.listTopics())

export const exists = (topic: string) => Effect.map(list, (topics) => topics.includes(topic))

/** `settings`: of the topic, such as `max.message.bytes`. */
export const create = (topic: string, partitions = 1, settings: Readonly<Record<string, string>> = {}) =>
  Effect.andThen(
    admin((admin) =>
      admin.createTopics({
        topics: [{
          topic,
          numPartitions: partitions,
          configEntries: Object.entries(settings).map(([name, value]) => ({ name, value }))
        }],
        waitForLeaders: false
      })
    ),
    until("the topic to be listed", exists(topic), (isListed) => isListed)
  )

/** Waits until the new partitions have leaders, without which they cannot be read. */
export const grow = (topic: string, partitions: number) =>
  Effect.andThen(
    admin((admin) => admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] })),
    until(
      "the new partitions to have leaders",
      admin((admin) => admin.fetchTopicOffsets(topic).catch(() => [])),
      ({ length }) => length === partitions
    )
  )

export const remove = (topic: string) => admin((admin) => admin.deleteTopics({ topics: [topic] }))

/** Waits until the broker's answers no longer show the topic. */
export const removed = (topic: string) => until("the topic to be removed", exists(topic), (isListed) => !isListed)

/** The value of a topic's setting. */
export const setting = (topic: string, name: string) =>
  admin(async (admin) => {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
    })
    return resources[0]?.configEntries[0]?.configValue
  })
