/**
 * The AsyncAPI document of the published topics: each topic's key, headers and values, as `rollcall schema` prints it.
 *
 * Gotchas
 * - Payloads are JSON Schema 2020-12, which AsyncAPI allows if `schemaFormat` names it.
 */
import type { Model } from "../domain/Model.ts"
import { eventSchemaOf, progressSchema } from "./EventSchema.ts"
import { progressTopicOf } from "./kafka/KafkaMessage.ts"

export interface AsyncApiOptions {
  readonly version: string
  readonly models: ReadonlyArray<Model>
  /** Template of topic names. */
  readonly topic: string
  /** Whether there are state topics. */
  readonly state: boolean
}

const schemaFormat = "application/schema+json;version=draft-2020-12"
const text = (description: string) => ({ type: "string", description })
const stringKey = (description: string) => ({ kafka: { key: text(description) } })
const recordKey = "<integration>/<model>/<id>"
const ref = (path: string) => ({ $ref: `#/${path}` })

const headers = {
  type: "object",
  required: ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_generation", "ce_recordversion"],
  properties: {
    ce_specversion: { const: "1.0" },
    ce_id: text("The same id always has the same content: ignore events whose id you have already seen"),
    ce_source: text("/integrations/<integration>"),
    ce_type: text("rollcall.<model>.<kind>"),
    ce_subject: text("Record id"),
    ce_generation: text("Order is (generation, version)"),
    ce_recordversion: text("1, 2, 3 … per record and generation"),
    ce_position: text("Position in the event log"),
    ce_stub: text("`true`: the event was too large for the topic; the value contains the path to read it")
  }
}

const parameters = (topic: string) =>
  topic.includes("{integration}")
    ? {
      parameters: {
        integration: { description: "Every byte outside [A-Za-z0-9.-] is written as `_` and two hex digits" }
      }
    }
    : {}

/** AsyncAPI 3.0. */
export const asyncApiOf = ({ models, state, topic, version }: AsyncApiOptions) => {
  const channel = (name: string, address: string, description: string) =>
    [name, {
      address,
      description,
      ...parameters(address),
      messages: { [name]: ref(`components/messages/${name}`) }
    }] as const
  const message = (name: string, key: string, schema: unknown, extra: object = {}) =>
    [name, {
      name,
      contentType: "application/json",
      ...extra,
      payload: { schemaFormat, schema },
      bindings: stringKey(key)
    }] as const
  const kinds = models.flatMap((model) => {
    const address = topic.replaceAll("{model}", model)
    const events = {
      channel: channel(model, address, `Changes of ${model}, in order per record`),
      message: message(model, recordKey, eventSchemaOf(model), { headers })
    }
    const latest = {
      channel: channel(
        `${model}.state`,
        `${address}.state`,
        `Latest content per record, compacted; null after deletion`
      ),
      message: message(`${model}.state`, recordKey, { type: ["object", "null"] }, { headers })
    }
    return state ? [events, latest] : [events]
  })
  const progress = {
    channel: channel("progress", progressTopicOf(topic), "How far each stream is complete, compacted"),
    message: message("progress", "<integration>/<model>", progressSchema)
  }
  const all = [...kinds, progress]
  return {
    asyncapi: "3.0.0",
    info: {
      title: "Rollcall",
      version,
      description: "Change events of a polled HR, recruiting, assessment and learning API"
    },
    defaultContentType: "application/json",
    channels: Object.fromEntries(all.map(({ channel }) => channel)),
    operations: Object.fromEntries(all.map(({ channel: [name] }) => [name, {
      action: "send",
      channel: ref(`channels/${name}`),
      messages: [ref(`channels/${name}/messages/${name}`)]
    }])),
    components: { messages: Object.fromEntries(all.map(({ message }) => message)) }
  }
}
