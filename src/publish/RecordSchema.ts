/**
 * JSON Schemas of published records, derived from the contract's schemas (`api/Records.ts`).
 *
 * Invariants
 * 1. Every record that the contract allows matches its schema, even if the configuration drops or hashes values. So only `id` is required,
 *    unknown properties are allowed, and every value may be null or a hash
 *
 * Gotchas
 * - Times have no `format`: the API may send an invalid time, and a hash is not a time.
 * - A record that breaks the contract is published nevertheless (S1) and does not match its schema. `domain/SchemaDrift.ts` counts
 *   such records.
 */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { RecordEntry } from "../domain/Model.ts"

export interface JsonSchema {
  readonly [keyword: string]: unknown
  readonly type?: string
  readonly title?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
}

const descriptions: Readonly<Record<string, string>> = {
  id: "Unique within the model of the integration",
  remote_id: "The id in the connected system itself",
  changed_at: "When the API noticed the last change; ISO 8601, UTC",
  remote_created_at: "When the record was created in the connected system; ISO 8601, UTC",
  remote_updated_at: "When the record was last updated in the connected system; ISO 8601, UTC",
  remote_deleted_at: "When the record was deleted in the connected system; ISO 8601, UTC; null if it was not",
  remote_data: "The connected system's raw data; null unless the configuration carries or tracks it",
  custom_fields: "Fields that only this installation of the connected system has",
  integration_fields: "Fields that only this connected system has"
}

/** The schemas of a property beside null. `Schema.Number` allows NaN and Infinity as texts, which no API sends. */
export const choicesOf = (property: JsonSchema): ReadonlyArray<JsonSchema> =>
  property.anyOf?.flatMap(choicesOf) ??
    (property.type === "null" || property.enum?.includes("NaN") === true ? [] : [property])

/** The schema of a property: the contract's, or null, or the text of a hash or of a number that a double cannot hold. */
const published = (property: JsonSchema): JsonSchema => {
  const choices = choicesOf(property)
  const known = choices.find((choice) => choice.enum !== undefined && choices.length > 1)
  if (choices.length === 0 || choices.some(({ type }) => type === undefined)) return {}
  const others = choices.filter(({ type }) => type !== "string").map(openedInside)
  return { anyOf: [...known === undefined ? [] : [known], ...others, { type: "string" }, { type: "null" }] }
}

/** The schema, with objects whose properties are all optional. Only a schema that contains itself is a reference: it has any content. */
const openedInside = (property: JsonSchema): JsonSchema => {
  const { $ref, prefixItems: _, ...schema } = property
  if ($ref !== undefined) return {}
  if (schema.type === "object") return opened(schema)
  const { anyOf, items } = schema
  return {
    ...schema,
    ...anyOf !== undefined && { anyOf: anyOf.map(openedInside) },
    ...items !== undefined && { items: openedInside(items) }
  }
}

const opened = ({ properties = {} }: JsonSchema): JsonSchema => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(properties).map(([name, property]) => {
      const description = descriptions[name]
      return [name, { ...description !== undefined && { description }, ...published(property) }]
    })
  ),
  additionalProperties: true
})

/** The contract's schema of a model's records. `title` is the name of the record's type. */
export const contractSchemaOf = ({ schema: contract }: RecordEntry): JsonSchema & { readonly title: string } => {
  const { schema } = Schema.toJsonSchemaDocument(contract, { referencePolicy: () => undefined })
  return { ...schema, title: SchemaAST.resolveIdentifier(contract.ast) ?? "" }
}

/** The schema of a model's published records, without `$id` and references. */
export const recordSchemaOf = (entry: RecordEntry): JsonSchema & { readonly title: string } => {
  const { title, ...contract } = contractSchemaOf(entry)
  const { properties, ...open } = opened(contract)
  return {
    title,
    description:
      `A record of ${entry.model}. Any property except \`id\` may be absent or null, and others may be added. Where the ` +
      "configuration hashes a value, it is a string that begins with `redacted:`. A number that a double cannot hold is a string " +
      "of its digits. Enumerations may have further values",
    ...open,
    properties: { ...properties, id: { type: "string", description: descriptions["id"] } },
    required: ["id"]
  }
}
