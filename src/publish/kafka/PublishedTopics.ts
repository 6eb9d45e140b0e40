/** The topics that the sink publishes to: their settings, and the form and the schemas of their values. */
import { type Models, recordEntryOf, type StreamKey } from "../../domain/Model.ts"
import { eventSchemaDocumentOf, progressSchemaDocument, recordSchemaDocumentOf } from "../SchemaDocuments.ts"
import type { SinkInspection } from "../Sink.ts"
import { envelopeSchemaDocumentOf } from "./Debezium.ts"
import type { Format } from "./KafkaMessage.ts"
import type { KafkaTopic, TopicInfo } from "./KafkaTopics.ts"
import type { RegistryOptions, TopicSchema } from "./SchemaRegistry.ts"
import { progressTopicOf, stateTopicOf, topicOf } from "./TopicNames.ts"

export interface TopicOptions {
  /** Template of topic names with `{model}` and `{integration}`; `rollcall.{model}` by default. */
  readonly topic: string
  /** Whether each record's latest content is also published to a compacted topic, `<topic>.state`, with null after a deletion. */
  readonly state?: boolean
  /** Partitions of new event and state topics; 6 by default. */
  readonly partitions?: number | undefined
  /** Copies of each partition of new topics; three, or one per broker if there are fewer brokers, by default. */
  readonly replicationFactor?: number | undefined
  /** The form of the values of events; `cloudevents` by default. */
  readonly format?: Format
  /** Where the schemas of the values are registered; none by default. */
  readonly schemaRegistry?: RegistryOptions | null
  /** Streams whose topics `open` creates or checks. Topics of other streams are created with their first event. */
  readonly streams?: ReadonlyArray<StreamKey>
}

const defaultPartitions = 6

/** How values are encoded, in words, for the topic's checkpoint; undefined: plain JSON of the default format. */
const formOf = ({ schemaRegistry }: TopicOptions, format: Format | null): string | undefined => {
  const words = [
    ...(format === "debezium" ? ["Debezium's form"] : []),
    ...(format === "connect" ? ["Debezium's form with schemas"] : []),
    ...(schemaRegistry == null ? [] : ["values with the id of a registered schema"])
  ]
  return words.length === 0 ? undefined : words.join(", ")
}

export const streamTopics = (options: TopicOptions, stream: StreamKey): ReadonlyArray<KafkaTopic> => {
  const { format = "cloudevents", partitions = defaultPartitions, replicationFactor } = options
  const size = { partitions, replicationFactor }
  const events = { ...size, name: topicOf(options.topic, stream), keeps: "log", form: formOf(options, format) } as const
  return options.state === true
    ? [events, { ...size, name: stateTopicOf(options.topic, stream), keeps: "latest", form: formOf(options, null) }]
    : [events]
}

/** The topics of a stream with the schemas of their values. */
export const streamSchemas = (
  models: Models,
  options: TopicOptions,
  stream: StreamKey
): ReadonlyArray<TopicSchema> => {
  const entry = recordEntryOf(models, stream.model)
  const event = options.format === "debezium"
    ? () => envelopeSchemaDocumentOf(entry)
    : () => eventSchemaDocumentOf(entry)
  return [
    { topic: topicOf(options.topic, stream), schema: event },
    ...(options.state === true
      ? [{ topic: stateTopicOf(options.topic, stream), schema: () => recordSchemaDocumentOf(entry) }]
      : [])
  ]
}
export const progressSchemas = (options: TopicOptions): TopicSchema => ({
  topic: progressTopicOf(options.topic),
  schema: () => progressSchemaDocument
})
export const requiredSchemas = (models: Models, options: TopicOptions): ReadonlyArray<TopicSchema> => [
  progressSchemas(options),
  ...(options.streams ?? []).flatMap((stream) => streamSchemas(models, options, stream))
]

/** Topics that must exist before anything is published. */
export const requiredTopics = (options: TopicOptions): ReadonlyArray<KafkaTopic> => {
  const { replicationFactor } = options
  const topics = [
    { name: progressTopicOf(options.topic), keeps: "latest", partitions: 1, replicationFactor } as const,
    ...(options.streams ?? []).flatMap((stream) => streamTopics(options, stream))
  ]
  return [...new Map(topics.map((topic) => [topic.name, topic])).values()]
}

/** Existing topics that differ from what is configured for new ones. Rollcall's own topics always have one partition. */
export const findDeviations = (
  options: TopicOptions,
  present: ReadonlyMap<string, TopicInfo>
): SinkInspection["deviations"] => {
  const ofStreams = new Set(
    (options.streams ?? []).flatMap((stream) => streamTopics(options, stream)).map(({ name }) => name)
  )
  return [...present].flatMap(([topic, { partitions, replicas }]) => {
    const found = [
      { setting: "partitions", wanted: ofStreams.has(topic) ? options.partitions : undefined, actual: partitions },
      { setting: "replicationFactor", wanted: options.replicationFactor, actual: replicas }
    ] as const
    return found.flatMap(({ actual, setting, wanted }) =>
      wanted === undefined || wanted === actual ? [] : [{ topic, setting, wanted, actual }]
    )
  })
}
