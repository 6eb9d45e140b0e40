/**
 * The OpenAPI 3.1 document of the contract: hides what the generated one says too little of, or too much.
 *
 * Gotchas
 * - Generated objects are closed; ours are open: a further field is no fault.
 * - The wire form of every query parameter is text, which says nothing of what the text must be.
 */
import { lists, pageSize, updatedAfterPattern } from "./Lists.ts"

type Json = Record<string, unknown>

const parameterDocs: Readonly<Record<string, Json>> = {
  page_size: { schema: { type: "integer", minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default } },
  updated_after: { schema: { type: "string", pattern: updatedAfterPattern.source } },
  include_deleted: { schema: { type: "boolean", default: false } },
  ignore_unsupported_filters: { schema: { type: "boolean", default: false } },
  cursor: { description: "`data.next` of the page before." },
  outcome: { description: "Use `outcomes`.", deprecated: true },
  course_id: { description: "The course's id, or `remote:<remote_id>`." },
  "x-integration-id": { description: "`<tool>:<identifier>`." }
}
const commaListDoc = {
  description: "Comma-separated; empty means all.",
  schema: { type: "array", items: { type: "string" } },
  style: "form",
  explode: false
}
const commaLists = new Set([
  "ids",
  "remote_ids",
  ...Object.values(lists).flatMap((list): ReadonlyArray<string> => list.filters)
])

const documented = (parameter: Json): Json => {
  const name = String(parameter["name"])
  const filter = parameter["in"] === "query" && commaLists.has(name)
  return { ...parameter, ...(filter ? commaListDoc : {}), ...parameterDocs[name] }
}

const isClosing = (key: string, value: unknown): boolean => key === "additionalProperties" && value === false

/** The generated document, completed. */
export const complete = (generated: Json): Json =>
  JSON.parse(JSON.stringify(generated, (key, value) => {
    if (isClosing(key, value)) return undefined
    return key === "parameters" && Array.isArray(value) ? value.map(documented) : value
  }))
