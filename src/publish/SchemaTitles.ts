/**
 * Titles for the schemas inside a schema. Code generators call the type of a nested schema by its title, and number the types that have
 * none.
 *
 * Invariants
 * 1. In one schema no two titles are equal: a title is the title of the schema around it and the name of the property
 */
import type { JsonSchema } from "./RecordSchema.ts"

/** `email_addresses` becomes `EmailAddresses`. */
export const pascal = (name: string): string =>
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
export const titled = (schema: JsonSchema, title: string): JsonSchema => {
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
