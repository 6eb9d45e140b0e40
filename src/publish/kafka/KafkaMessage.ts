/**
 * Turns an event into a Kafka message: key, headers and value, as CloudEvents 1.0 in binary mode or in the Debezium format.
 *
 * Invariants
 * 1. All events of one record go to one topic under one key   (I5)
 * 2. An event that is too large for its topic becomes a stub   (K1)
 *
 * Gotchas
 * - The trace context of an event is sent twice: as the attribute `traceparent` of CloudEvents, and as the header `traceparent`, which
 *   tracing libraries read. A Debezium message has only the header.
 */
import {
  dataTextOf,
  formatPosition,
  type Json,
  type LogEntry,
  type LogIdentity,
  mainAttributesOf,
  partitionKey,
  removalAttributesOf,
  stateAttributesOf
} from "../../domain/ChangeEvent.ts"
import { isModelName, type Models, streamName } from "../../domain/Model.ts"
import type { RecordKey, StreamProgress } from "../Sink.ts"
import { connectForm } from "./ConnectForm.ts"
import { envelopeTextOf } from "./Debezium.ts"
import type { PlacedMessage } from "./driver/Driver.ts"
import { fitsInBatch } from "./Sends.ts"
import { progressTopicOf, stateTopicOf, topicOf } from "./TopicNames.ts"

/** One message with its destination; without a partition, the key decides. */
export type KafkaMessage = Omit<PlacedMessage, "partition"> & {
  readonly partition?: number
  /** Position of the event in the log, if the message is in the topic of its events. */
  readonly position?: number
}

export interface ReceivedMessage {
  readonly partition: number
  readonly key: string | undefined
  readonly value: string | undefined
  readonly header: (name: string) => string | undefined
}

type Headers = PlacedMessage["headers"]

const headersOf = (attributes: Readonly<Record<string, string | number>>): Headers => {
  const headers: Record<string, string> = {}
  for (const name in attributes) {
    headers[name === "datacontenttype" ? "content-type" : `ce_${name}`] = String(attributes[name])
  }
  return headers
}

/** For the Debezium format and for progress: JSON without the attributes of a CloudEvent. */
export const plainHeaders: Headers = { "content-type": "application/json" }
const stubHeader: Headers = { ce_stub: "true" }

/** The path of the operating API that returns only this event, with its contents. */
const logUrlOf = (identity: LogIdentity, entry: LogEntry): string =>
  `/v1/events?after=${formatPosition(identity, entry.position - 1)}&limit=1`

const stubTextOf = (identity: LogIdentity, entry: LogEntry): Json =>
  `${
    dataTextOf({ ...entry, before: null, after: null, changes: "[]", transitions: "[]", cause: null }).slice(0, -1)
  },"stub":true,"log":${JSON.stringify(logUrlOf(identity, entry))}}`

/**
 * The form of an event's value: the `data` of a CloudEvent in binary mode, or Debezium's envelope. `connect`: the key and the envelope as
 * structs of Kafka Connect, with their schemas.
 */
export type Format = "cloudevents" | "debezium" | "connect"

/** Makes the bytes of a message's value from its JSON. With a schema registry, for example, the id of the schema precedes the JSON. */
export type Frame = (topic: string, value: Json) => Buffer
export const plainJson: Frame = (_topic, value) => Buffer.from(value)

export interface Encoding {
  readonly identity: LogIdentity
  /** `cloudevents` by default. */
  readonly format?: Format
  /** With Debezium's envelope: whether each delete is followed by a message without a value, so that compaction removes the key. */
  readonly tombstones?: boolean
  /** The bytes of a value for a topic; plain JSON by default. */
  readonly frame?: Frame
  /** For the form `connect`: the models with the schemas of their records. */
  readonly models: Models
  /** Topic template. */
  readonly topic: string
  /** Whether the latest content of records is also published to a compacted topic. */
  readonly state: boolean
  /** Size of the largest record batch that a topic accepts, in bytes. */
  readonly limitOf: (topic: string) => number
}

/**
 * The messages of one entry, in order: the event; for a delete in the Debezium format, the tombstone, if enabled; the record's state, if
 * enabled. `stubbed`: whether one of them is a stub.
 */
export interface EncodedEntry {
  readonly messages: ReadonlyArray<KafkaMessage>
  readonly stubbed: boolean
}

/** Makes a function that encodes log entries as messages without parsing their contents. */
export const makeEncoder = (encoding: Encoding): (entry: LogEntry) => EncodedEntry => {
  const { format = "cloudevents", frame = plainJson, identity, limitOf, tombstones = true } = encoding
  const connect = format === "connect" ? connectForm(encoding.models) : null

  return (entry) => {
    const { kind, position, traceparent } = entry
    const topic = topicOf(encoding.topic, entry)
    const key = partitionKey(entry)
    const eventKey = connect === null ? key : connect.keyOf(entry)
    const trace = traceparent === null ? {} : { traceparent }
    let stubbed = false
    const fitting = (whole: KafkaMessage, stub: () => Json, stubHeader: Headers): KafkaMessage => {
      if (fitsInBatch(whole, limitOf(whole.topic))) return whole
      stubbed = true
      return { ...whole, value: frame(whole.topic, stub()), headers: { ...whole.headers, ...stubHeader } }
    }

    const isEnvelope = format !== "cloudevents"
    const envelopeOf = connect === null ? envelopeTextOf : connect.valueOf
    const messages = [
      fitting(
        {
          topic,
          key: eventKey,
          value: frame(topic, isEnvelope ? envelopeOf(identity, entry, null) : dataTextOf(entry)),
          headers: { ...(isEnvelope ? plainHeaders : headersOf(mainAttributesOf(identity, entry))), ...trace },
          position
        },
        () => isEnvelope ? envelopeOf(identity, entry, logUrlOf(identity, entry)) : stubTextOf(identity, entry),
        isEnvelope ? {} : stubHeader
      )
    ]
    if (isEnvelope && tombstones && kind === "deleted") {
      messages.push({ topic, key: eventKey, value: null, headers: {}, position })
    }
    if (encoding.state) {
      const stateTopic = stateTopicOf(encoding.topic, entry)
      messages.push(fitting(
        {
          topic: stateTopic,
          key,
          value: entry.after === null ? null : frame(stateTopic, entry.after),
          headers: { ...headersOf(stateAttributesOf(identity, entry)), ...trace }
        },
        () => JSON.stringify({ id: entry.id, stub: true, log: logUrlOf(identity, entry) }),
        stubHeader
      ))
    }
    return { messages, stubbed }
  }
}

/**
 * The message without a value that removes a record from a state topic. It is used for records whose removal causes no event. `moved`: the
 * record's message in the partition that its key had before. The removal in that partition has the generation and version of that message,
 * so a reader that keeps the greater version ignores the removal.
 */
export const stateRemoval = (
  identity: LogIdentity,
  topic: string,
  record: RecordKey,
  now: number,
  moved: ReceivedMessage | null = null
): KafkaMessage => ({
  topic,
  key: partitionKey(record),
  value: null,
  headers: {
    ...headersOf(removalAttributesOf(identity, record, now)),
    ...moved === null
      ? {}
      : Object.fromEntries(["ce_generation", "ce_recordversion"].map((name) => [name, moved.header(name) ?? "0"]))
  }
})

/** The record of a message in a state topic, as a list; empty if the record was deleted, or if another program wrote the message. */
export const recordOf = ({ header, value }: ReceivedMessage): ReadonlyArray<RecordKey> => {
  const [integration, model, id] = [header("ce_integration"), header("ce_model"), header("ce_subject")]
  return value === undefined || integration === undefined || model === undefined || id === undefined ||
      !isModelName(model)
    ? []
    : [{ integration, model, id }]
}

export const progressMessage = (
  identity: LogIdentity,
  template: string,
  progress: StreamProgress,
  frame: Frame = plainJson
): KafkaMessage => ({
  topic: progressTopicOf(template),
  key: streamName(progress),
  value: frame(
    progressTopicOf(template),
    JSON.stringify({
      store: identity.store,
      generation: progress.generation,
      complete_to: new Date(progress.completeTo).toISOString(),
      position: formatPosition(identity, progress.position),
      at: new Date(progress.at).toISOString()
    })
  ),
  headers: plainHeaders
})
