/**
 * The published schemas as JSON Schema (draft 2020-12): records, the `data` of events, and progress.
 *
 * Invariants
 * 1. The schemas only grow, so the newest version of a schema also describes what was published under the earlier ones
 */
import * as Schema from "effect/Schema"
import { type Models, perModels, type RecordEntry } from "../domain/Model.ts"
import { schemaIdOf, type SchemaName, schemaVersionOf } from "../domain/SchemaId.ts"
import { EventData, ProgressData } from "./EventSchema.ts"
import { type JsonSchema, recordSchemaOf } from "./RecordSchema.ts"

const draft = "https://json-schema.org/draft/2020-12/schema"

/** Known names first, so that code generators make a type of them; other names may be added. */
const openEnum = (names: ReadonlyArray<string>): JsonSchema => ({
  anyOf: [...names.length === 0 ? [] : [{ type: "string", enum: names }], { type: "string" }]
})

const eventData: JsonSchema = Schema.toJsonSchemaDocument(EventData).schema

/** Replaces the properties that are more specific in the events of one model. */
const refine = (schema: JsonSchema, properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  ...schema,
  properties: { ...schema.properties, ...properties }
})

/** The schema of the `data` of a model's events, without `$id`. `record`: a reference to the schema of its records. */
export const eventDataSchemaOf = (entry: RecordEntry, record: string): JsonSchema => {
  const { after, before, transitions } = eventData.properties ?? {}
  const content = (schema: JsonSchema | undefined): JsonSchema => ({
    description: schema?.["description"],
    anyOf: [{ $ref: record }, { type: "null" }]
  })
  return {
    title: `${recordSchemaOf(entry).title}Event`,
    description: `The data of an event of ${entry.model}`,
    ...refine(eventData, {
      model: { type: "string", const: entry.model },
      before: content(before),
      after: content(after),
      transitions: {
        ...transitions,
        items: refine(transitions?.items ?? {}, { name: openEnum(entry.transitions.map(({ name }) => name)) })
      }
    })
  }
}

/** The schema of the values of the progress topic, without `$id`. */
export const progressDataSchema: JsonSchema = {
  title: "Progress",
  description: "How far a stream is complete",
  ...Schema.toJsonSchemaDocument(ProgressData).schema
}

const documentOf = (name: SchemaName, schema: JsonSchema): JsonSchema => ({
  $schema: draft,
  $id: schemaIdOf(name),
  ...schema
})

/** The schema of a model's records. */
export const recordSchemaDocumentOf = (entry: RecordEntry): JsonSchema => documentOf(entry.model, recordSchemaOf(entry))

/** The schema of the `data` of a model's events; its `$id` is their `dataschema`. */
export const eventSchemaDocumentOf = (entry: RecordEntry): JsonSchema => {
  const record = recordSchemaOf(entry)
  return {
    ...documentOf(`${entry.model}.event`, eventDataSchemaOf(entry, `#/$defs/${record.title}`)),
    $defs: { [record.title]: record }
  }
}

export const progressSchemaDocument = documentOf("progress", progressDataSchema)

interface PublishedSchema {
  readonly name: SchemaName
  readonly version: number
  readonly id: string
  readonly document: () => JsonSchema
}

const publish = (name: SchemaName, document: () => JsonSchema): PublishedSchema => ({
  name,
  version: schemaVersionOf(name),
  id: schemaIdOf(name),
  document
})

/** Every published schema in its newest version. */
export const publishedSchemas = perModels(({ entries }: Models): ReadonlyArray<PublishedSchema> => [
  ...entries.map((entry) => publish(entry.model, () => recordSchemaDocumentOf(entry))),
  ...entries.map((entry) => publish(`${entry.model}.event`, () => eventSchemaDocumentOf(entry))),
  publish("progress", () => progressSchemaDocument)
])
