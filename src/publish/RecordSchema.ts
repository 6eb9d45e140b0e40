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
import type { RecordEntry } from "../domain/Model.ts"

export interface JsonSchema {
  readonly [keyword: string]: unknown
  readonly type?: string
  readonly title?: string
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

/** The schema of a property: the contract's, or null, or the text of a hash or of a number that a double cannot hold. */
const published = (property: JsonSchema): JsonSchema => {
  const choices = (property.anyOf ?? [property]).filter(({ type }) => type !== "null")
  const known = choices.find((choice) => choice["enum"] !== undefined && choices.length > 1)
  if (choices[0]?.type === undefined) return {}
  const others = choices.filter(({ type }) => type !== "string").map((choice) =>
    choice.type === "object" ? opened(choice) : { ...choice, ...itemsOf(choice) }
  )
  return { anyOf: [...known === undefined ? [] : [known], ...others, { type: "string" }, { type: "null" }] }
}

const itemsOf = ({ items }: JsonSchema) => items?.type === "object" ? { items: opened(items) } : {}

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
  const { definitions, schema } = Schema.toJsonSchemaDocument(contract)
  const title = String(schema["$ref"]).replace(/^.*\//, "")
  return { ...definitions[title], title }
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
