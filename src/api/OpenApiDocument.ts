/**
 * The OpenAPI 3.1 document of the contract: hides what the generated one says too little of, or too much.
 *
 * Gotchas
 * - Generated objects are closed; ours are open: a further field is no fault.
 * - The wire form of every query parameter is text, which says nothing of what the text must be.
 * - Of patterns only those of regular expressions with the flag `u` get into the document.
 */
import { cursorParameter, filterValues, type List, lists, pageSize, updatedAfterPattern } from "./Lists.ts"

type Json = Record<string, unknown>

/** What may be said of every list: its name, and when `updated_after` reacts to what is nested in its records. */
export const listDocs = ({ path, propagation }: List) => {
  const nested = (matches: boolean): string =>
    Object.entries(propagation).filter(([, { linked }]) => linked === matches).map(([path]) => `\`${path}\``).join(", ")
  const [reacts, ignores] = [nested(true), nested(false)]
  const sentences = [
    ...(reacts === "" ? [] : [`\`updated_after\` also reacts to changes of ${reacts}.`]),
    ...(ignores === "" ? [] : [`\`updated_after\` does not react to changes of ${ignores}.`])
  ]
  return {
    summary: `List ${path.slice(path.lastIndexOf("/") + 1).replaceAll("-", " ")}`,
    ...(sentences.length > 0 && { description: sentences.join(" ") })
  }
}

const parameterDocs: Readonly<Record<string, Json>> = {
  page_size: {
    description: "How many records a page holds at most.",
    schema: { type: "integer", minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default }
  },
  updated_after: {
    description:
      "`YYYY-MM-DDTHH:mm:ss.sssZ`, in UTC: records that changed since, themselves or in what is nested in them, also where `changed_at` is older. With `include_deleted=true` deletions too.",
    schema: { type: "string", pattern: updatedAfterPattern.source }
  },
  include_deleted: { description: "Show deleted records as well.", schema: { type: "boolean", default: false } },
  ignore_unsupported_filters: {
    description: "Ignore filters on fields that the integration does not support; else such a filter leaves nothing.",
    schema: { type: "boolean", default: false }
  },
  [cursorParameter]: { description: "`data.next` of the page before; all filters are repeated." },
  outcome: { deprecated: true },
  application_id: { description: "The application's id." },
  candidate_id: { description: "The candidate's id." },
  job_id: { description: "The job's id." },
  employee_id: { description: "The employee's id." },
  staffing_entity_id: { description: "The staffing entity's id: 24 characters of base58 where the form is asked for." },
  course_id: { description: "The course's id, or `remote:<remote_id>`." },
  category: { description: "The kind of third-party system." },
  "x-integration-id": { description: "The connected system, `<tool>:<identifier>`." }
}
const filterDocs = (name: string): Json => ({
  description: name === "outcome"
    ? "Use `outcomes`."
    : "Comma-separated; a record with any of the values matches. Empty means all.",
  schema: {
    type: "array",
    items: { type: "string", ...(Object.hasOwn(filterValues, name) && { enum: filterValues[name] }) }
  },
  style: "form",
  explode: false
})
const filters = new Set([
  "ids",
  "remote_ids",
  ...Object.values(lists).flatMap((list): ReadonlyArray<string> => list.filters)
])

const documentParameter = (parameter: Json): Json => {
  const name = String(parameter["name"])
  const isFilter = parameter["in"] === "query" && filters.has(name)
  return { ...parameter, ...(isFilter ? filterDocs(name) : {}), ...parameterDocs[name] }
}

const statusDocs: Readonly<Record<string, Json>> = {
  200: { description: "Success." },
  400: { description: "The request is wrong, or the connected system refuses what it says." },
  401: { description: "The key is missing or wrong." },
  403: { description: "Not permitted to this key, or switched off for this integration." },
  404: { description: "There is no such integration or record, or the integration does not offer this." },
  409: { description: "The integration is not set up yet, or what is asked contradicts what there is: `code` tells." },
  413: { description: "The body is too large." },
  415: { description: "The body is of another media type than `application/json`." },
  429: {
    description: "Too many requests, or too many at once.",
    headers: { "Retry-After": { description: "Seconds to wait, if it is known.", schema: { type: "string" } } }
  },
  500: { description: "The API failed; whether a write took effect is not known." },
  502: { description: "The connected system could not be asked." },
  503: { description: "The connected system does not answer." },
  504: { description: "The connected system takes too long; whether a write took effect is not known." }
}

const documentResponses = (responses: Json): Json =>
  Object.fromEntries(
    Object.entries(responses).map(([status, response]) => [status, { ...(response as Json), ...statusDocs[status] }])
  )

const isClosing = (key: string, value: unknown): boolean => key === "additionalProperties" && value === false
const isResponses = (key: string, value: unknown): value is Json =>
  key === "responses" && typeof value === "object" && value !== null && "200" in value

/** The generated document, completed. */
export const completeDocument = (generated: Json): Json =>
  JSON.parse(JSON.stringify(generated, (key, value) => {
    if (isClosing(key, value)) return undefined
    if (isResponses(key, value)) return documentResponses(value)
    return key === "parameters" && Array.isArray(value) ? value.map(documentParameter) : value
  }))
