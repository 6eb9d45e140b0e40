/**
 * Completes the generated OpenAPI 3.1 document of the contract: adds descriptions and parameter types, and opens objects.
 *
 * Gotchas
 * - Generated object schemas forbid additional fields; the contract allows them.
 * - The generator describes every query parameter as a string, so the actual formats are added here.
 * - The generator includes only patterns of regular expressions that have the flag `u`.
 */
import {
  cursorParameter,
  filterValues,
  type List,
  lists,
  pageSizeLimits,
  timeFilters,
  updatedAfterPattern
} from "./Lists.ts"

type Json = Record<string, unknown>

/** The summary of a list, and which nested changes `updated_after` reacts to. */
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
    description: "Maximum number of records per page.",
    schema: {
      type: "integer",
      minimum: pageSizeLimits.min,
      maximum: pageSizeLimits.max,
      default: pageSizeLimits.default
    }
  },
  updated_after: {
    description:
      "`YYYY-MM-DDTHH:mm:ss.sssZ`, in UTC: returns records that changed since then, or whose nested content changed, even if `changed_at` is older. With `include_deleted=true` also deleted records.",
    schema: { type: "string", pattern: updatedAfterPattern.source }
  },
  include_deleted: { description: "Return deleted records too.", schema: { type: "boolean", default: false } },
  ignore_unsupported_filters: {
    description:
      "Ignore filters on fields that the integration does not support. Otherwise such a filter matches no record.",
    schema: { type: "boolean", default: false }
  },
  [cursorParameter]: { description: "`data.next` of the previous page. Repeat all filters of the first request." },
  remote_created_after: {
    description:
      "`YYYY-MM-DDTHH:mm:ss.sssZ`, in UTC: returns records that were created in the third-party system since then.",
    schema: { type: "string", pattern: updatedAfterPattern.source }
  },
  outcome: { deprecated: true },
  application_id: { description: "The application's id." },
  candidate_id: { description: "The candidate's id." },
  job_id: { description: "The job's id." },
  employee_id: { description: "The employee's id." },
  staffing_entity_id: { description: "The staffing entity's id: 24 base58 characters when requesting the form." },
  course_id: { description: "The course's id, or `remote:<remote_id>`." },
  category: { description: "The category of third-party systems." },
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
  const isFilter = parameter["in"] === "query" && filters.has(name) && !timeFilters.includes(name)
  return { ...parameter, ...(isFilter ? filterDocs(name) : {}), ...parameterDocs[name] }
}

const statusDocs: Readonly<Record<string, Json>> = {
  200: { description: "Success." },
  400: { description: "The request is invalid, or the connected system rejects its content." },
  401: { description: "The key is missing or invalid." },
  403: { description: "The key does not have the permission, or it is disabled for this integration." },
  404: {
    description: "The integration or the record does not exist, or the integration does not offer this endpoint."
  },
  409: { description: "The integration is not set up yet, or the request conflicts with existing data; see `code`." },
  413: { description: "The body is too large." },
  415: { description: "The body's media type is not `application/json`." },
  429: {
    description: "Too many requests, or too many concurrent requests.",
    headers: { "Retry-After": { description: "Seconds to wait, if known.", schema: { type: "string" } } }
  },
  500: { description: "The API failed; a write may or may not have taken effect." },
  502: { description: "The connected system could not be reached." },
  503: { description: "The connected system does not respond." },
  504: { description: "The connected system took too long; a write may or may not have taken effect." }
}

const documentResponses = (responses: Json): Json =>
  Object.fromEntries(
    Object.entries(responses).map(([status, response]) => [status, { ...(response as Json), ...statusDocs[status] }])
  )

const isClosing = (key: string, value: unknown): boolean => key === "additionalProperties" && value === false
const isResponses = (key: string, value: unknown): value is Json =>
  key === "responses" && typeof value === "object" && value !== null && "200" in value

/** Completes the generated document. */
export const completeDocument = (generated: Json): Json =>
  JSON.parse(JSON.stringify(generated, (key, value) => {
    if (isClosing(key, value)) return undefined
    if (isResponses(key, value)) return documentResponses(value)
    return key === "parameters" && Array.isArray(value) ? value.map(documentParameter) : value
  }))
