/**
 * The AsyncAPI document of the published topics: each topic's key, headers and values, as `rollcall schema` prints it.
 *
 * Invariants
 * 1. In one schema no two titles are equal: a title is the title of the schema around it and the name of the property
 *
 * Gotchas
 * - Code generators call the type of a nested schema by its title, and number the types that have none. So every nested schema has a title.
 * - AsyncAPI's own schemas are JSON Schema draft 7. Ours use only keywords that both drafts have, because some generators do not find the
 *   name of a schema whose `schemaFormat` is another one.
 */
import type { Model, RecordEntry } from "../../domain/Model.ts"
import { type JsonSchema, recordSchemaOf } from "../RecordSchema.ts"
import { eventDataSchemaOf, progressDataSchema } from "../SchemaDocuments.ts"
import { envelopeSchemaOf } from "./Debezium.ts"
import type { Format } from "./KafkaMessage.ts"
import { progressTopicOf } from "./TopicNames.ts"

// ---- titles -----------------------------------------------------------------------------------------------------------

/** `email_addresses` becomes `EmailAddresses`. */
const pascal = (name: string): string =>
  name.split(/[^A-Za-z0-9]+/).map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join("")

/** Whether generators make a type of the schema. They use the types of the language for all others. */
const isNamed = ({ anyOf, enum: values, type }: JsonSchema): boolean =>
  type === "object" || type === "array" || values !== undefined || anyOf?.some(isNamed) === true

/** The choices of a union: the title belongs to the one choice with a type of its own, such as the object in "an object, a text or null". */
const choicesOf = (choices: ReadonlyArray<JsonSchema>, title: string): ReadonlyArray<JsonSchema> => {
  const named = choices.filter(isNamed)
  return choices.map((choice) => {
    if (!isNamed(choice)) return choice
    return titled(choice, named.length === 1 ? title : `${title}${named.indexOf(choice) + 1}`)
  })
}

/** `ApplicationCandidate` for a property with a type of its own, `Application remote_id` for any other. */
const propertyTitle = (property: JsonSchema, owner: string, name: string): string =>
  isNamed(property) ? owner + pascal(name) : `${owner} ${name}`

/** The schema with this title, unless it has one, and with titles inside. A reference is left as it is. */
const titled = (schema: JsonSchema, title: string): JsonSchema => {
  if (schema["$ref"] !== undefined) return schema
  const own = schema.title ?? title
  const { anyOf, items, properties } = schema
  return {
    ...schema,
    title: anyOf !== undefined && isNamed(schema) ? `${own}Union` : own,
    ...anyOf !== undefined && { anyOf: choicesOf(anyOf, own) },
    ...items !== undefined && { items: titled(items, `${own}Item`) },
    ...properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties).map((
          [name, property]
        ) => [name, titled(property, propertyTitle(property, own, name))])
      )
    }
  }
}

// ---- the document -----------------------------------------------------------------------------------------------------

export interface AsyncApiOptions {
  readonly version: string
  readonly models: ReadonlyArray<RecordEntry>
  /** Template of topic names. */
  readonly topic: string
  /** Whether there are state topics. */
  readonly state: boolean
  /** The form of the values of events; `cloudevents` by default. */
  readonly format?: Format
  /** Whether the values start with the id of their schema in a schema registry. */
  readonly registered?: boolean
}

const text = (description: string) => ({ type: "string", description })
const stringKey = (title: string, description: string) => ({ kafka: { key: { title, ...text(description) } } })
const recordKey = "<integration>/<model>/<id>"
const ref = (path: string) => ({ $ref: `#/${path}` })
/** The place of a model's record schema in the document. */
const refTo = (entry: RecordEntry) => `#/components/schemas/${recordSchemaOf(entry).title}`
/** A schema of the document. Generators call its type by the name. */
const named = (name: string, schema: JsonSchema) => [name, titled(schema, name)] as const

const connectValue = (model: Model): JsonSchema => ({
  description:
    `A change of ${model} for the JSON converter of Kafka Connect: \`rollcall schema --connect ${model}\` prints the schema`,
  type: "object",
  required: ["schema", "payload"],
  properties: { schema: { type: "object" }, payload: { type: "object" } }
})

/** Headers of every message about a record. */
const recordHeaders = (type: string) => ({
  ce_specversion: { const: "1.0" },
  ce_id: text("The same id always has the same content: ignore events whose id you have already seen"),
  ce_source: text("/integrations/<integration>"),
  ce_type: text(type),
  ce_subject: text("Record id"),
  ce_time: { ...text("When Rollcall detected the change, ISO 8601"), format: "date-time" }
})

/** Headers that name the record of a value that is only its content. */
const contentHeaders = {
  ce_integration: text("`<tool>:<identifier>` of the connected system"),
  ce_model: text("Model of the record"),
  ce_generation: text("Later generations replace earlier ones; order is (generation, version)"),
  ce_recordversion: text("1, 2, 3 … per record and generation, without gaps")
}

/** Headers of messages that come from a row of the event log. */
const logHeaders = {
  "content-type": { const: "application/json" },
  ce_position: text("Position in the event log; opaque"),
  ce_sequence: text("Order in the event log: a text of fixed width that sorts by generation, then by position")
}
const traceHeader = (description: string) => ({
  type: "string",
  pattern: "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$",
  description
})
const appended =
  "W3C trace context of the span that stored the change; only while traces are exported and this one is recorded"
/** For tracing libraries, in every form of the value. */
const traceHeaders = { traceparent: traceHeader(appended) }
const cloudEventTraceHeaders = { ...traceHeaders, ce_traceparent: traceHeader(`${appended}. The same as traceparent`) }
const stubHeader = {
  ce_stub: { const: "true", description: "The content was too large for the topic: the value has the path to read it" }
}

type Headers = ReturnType<typeof headersWith>
const headersWith = (always: object, sometimes: object) => ({
  type: "object",
  required: Object.keys(always),
  properties: { ...always, ...sometimes }
})
const eventHeaders = headersWith(
  { ...recordHeaders("rollcall.<model>.<kind>"), ...logHeaders },
  { ...stubHeader, ...cloudEventTraceHeaders }
)
/** A record that is gone without an event is removed by a message without the headers of the log. */
const stateHeaders = headersWith({ ...recordHeaders("rollcall.<model>.state"), ...contentHeaders }, {
  ...logHeaders,
  ...stubHeader,
  ...cloudEventTraceHeaders
})
const progressHeaders = headersWith({ "content-type": logHeaders["content-type"] }, {})
/** A message without a value has no headers. */
const jsonHeaders = headersWith({}, { "content-type": logHeaders["content-type"], ...traceHeaders })

const parameters = (topic: string) =>
  topic.includes("{integration}")
    ? {
      parameters: {
        integration: { description: "Every byte outside [A-Za-z0-9.-] is written as `_` and two hex digits" }
      }
    }
    : {}

/** AsyncAPI 3.1. */
export const asyncApiOf = (options: AsyncApiOptions) => {
  const { format = "cloudevents", models, registered = false, state, topic, version } = options
  const channel = (name: string, address: string, description: string) =>
    [name, {
      address,
      description,
      ...parameters(address),
      messages: { [name]: ref(`components/messages/${name}`) }
    }] as const
  /** `type`: the name of the schema of its value. */
  const message = (name: string, type: string, key: string, headers: Headers) =>
    [name, {
      name,
      contentType: "application/json",
      ...(registered
        ? { description: "Before the JSON: a zero byte and the id of the schema in the registry, four bytes" }
        : {}),
      headers: { ...headers, ...titled(headers, `${type}Headers`) },
      payload: ref(`components/schemas/${type}`),
      bindings: stringKey(`${type}Key`, key)
    }] as const
  const kinds = models.flatMap((entry) => {
    const { model } = entry
    const address = topic.replaceAll("{model}", model)
    const { title, ...record } = recordSchemaOf(entry)
    const [event, latest] = [`${title}Event`, `${title}State`]
    const events = {
      channel: channel(model, address, `Changes of ${model}, in order per record`),
      message: message(
        model,
        event,
        format === "connect" ? "JSON with the members `schema` and `payload`, which is `{integration, id}`" : recordKey,
        format === "cloudevents" ? eventHeaders : jsonHeaders
      ),
      schemas: [
        named(title, record),
        format === "cloudevents"
          ? named(event, eventDataSchemaOf(entry, refTo(entry)))
          : named(event, {
            anyOf: [
              format === "connect" ? connectValue(model) : envelopeSchemaOf(entry, refTo(entry)),
              { type: "null", description: "After the event of a delete" }
            ]
          })
      ]
    }
    const states = {
      channel: channel(
        `${model}.state`,
        `${address}.state`,
        `Latest content per record, compacted; null after deletion`
      ),
      message: message(`${model}.state`, latest, recordKey, stateHeaders),
      schemas: [named(latest, { anyOf: [{ $ref: refTo(entry) }, { type: "null" }] })]
    }
    return state ? [events, states] : [events]
  })
  const progress = {
    channel: channel("progress", progressTopicOf(topic), "How far each stream is complete, compacted"),
    message: message("progress", "Progress", "<integration>/<model>", progressHeaders),
    schemas: [named("Progress", progressDataSchema)]
  }
  const all = [...kinds, progress]
  return {
    asyncapi: "3.1.0",
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
    components: {
      messages: Object.fromEntries(all.map(({ message }) => message)),
      schemas: Object.fromEntries(all.flatMap(({ schemas }) => schemas))
    }
  }
}
