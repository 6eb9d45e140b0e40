/**
 * What one list request asks for: hides the query rules of the lists and who may ask.
 *
 * Source: docs/contract.md, "Shared list contract", "List endpoints", "Authentication".
 */
import * as Result from "effect/Result"
import { type IncrementalModel, lists, pageSize, updatedAfterPattern } from "../api/Lists.ts"
import type { ListQuery } from "./Reading.ts"
import { invalid, Refusal } from "./Refusal.ts"
import type { World } from "./World.ts"

export interface ListRequest {
  readonly integration: string
  readonly model: IncrementalModel
  readonly query: ListQuery
  readonly pageSize: number
  readonly cursor: string | null
  /** What was sent and means nothing here. */
  readonly ignored: ReadonlyArray<string>
}

const sharedParameters: ReadonlyArray<string> = [
  "cursor",
  "page_size",
  "updated_after",
  "include_deleted",
  "ignore_unsupported_filters",
  "ids",
  "remote_ids"
]

type Headers = Readonly<Record<string, string | undefined>>

const values = {
  outcome: ["PENDING", "HIRED", "DECLINED"],
  outcomes: ["PENDING", "HIRED", "DECLINED"],
  types: ["MANAGER", "DIRECT_REPORT", "PEER", "SELF"],
  model_types: ["JOB", "POSITION", "REQUISITION"],
  statuses: ["OPEN_LIMITED", "OPEN_UNLIMITED", "PENDING", "FROZEN", "FILLED", "CLOSED"]
} as const satisfies Record<string, ReadonlyArray<string>>
const valuesOf = (filter: string): ReadonlyArray<string> | undefined =>
  filter in values ? values[filter as keyof typeof values] : undefined

/** The integration a request may read this model of, or why it may not. */
export const admit = (
  world: World,
  key: string,
  model: IncrementalModel,
  headers: Headers
): Result.Result<string, Refusal> => {
  if (headers["authorization"] !== `Bearer ${key}`) {
    const message = headers["authorization"] === undefined
      ? "Send the API key as `Authorization: Bearer <key>`."
      : "The API key is not valid."
    return Result.fail(new Refusal({ status: 401, code: "PLATFORM.AUTHENTICATION_INVALID", message }))
  }
  const integration = headers["x-integration-id"]
  if (integration === undefined) return Result.fail(invalid("Send the header X-Integration-Id."))
  if (!world.integrations.some(({ id }) => id === integration)) {
    const message = `There is no integration "${integration}".`
    return Result.fail(new Refusal({ status: 404, code: "PLATFORM.INTEGRATION_NOT_FOUND", message }))
  }
  if (!world.has(integration, model)) {
    const message = `"${integration}" does not offer ${lists[model].path}.`
    return Result.fail(new Refusal({ status: 404, code: "INTEGRATION.MODEL_NOT_AVAILABLE", message }))
  }
  return Result.succeed(integration)
}

/** The checked query of a list. */
export const parse = (
  integration: string,
  model: IncrementalModel,
  params: Readonly<Record<string, string | ReadonlyArray<string>>>
): Result.Result<ListRequest, Refusal> => {
  const filters: Record<string, ReadonlyArray<string>> = {}
  const texts: Record<string, string> = {}
  for (const [name, value] of Object.entries(params)) {
    if (typeof value !== "string") return Result.fail(invalid(`${name} is given more than once.`))
    texts[name] = value
  }
  for (const filter of lists[model].filters) {
    const chosen = listOf(texts[filter])
    const allowed = valuesOf(filter)
    const wrong = allowed && chosen.find((value) => !allowed.includes(value))
    if (wrong !== undefined) return Result.fail(invalid(`${filter}: "${wrong}" is none of ${allowed?.join(", ")}.`))
    filters[filter] = chosen
  }
  for (const name of ["include_deleted", "ignore_unsupported_filters"]) {
    const value = texts[name]
    if (value !== undefined && value !== "true" && value !== "false") {
      return Result.fail(invalid(`${name} must be true or false.`))
    }
  }
  const size = sizeOf(texts["page_size"])
  if (size === null) {
    return Result.fail(invalid(`page_size must be a whole number from ${pageSize.min} to ${pageSize.max}.`))
  }
  const updatedAfter = timeOf(texts["updated_after"])
  if (updatedAfter === "malformed") {
    return Result.fail(invalid("updated_after must look like YYYY-MM-DDTHH:mm:ss.sssZ."))
  }
  return Result.succeed({
    integration,
    model,
    query: {
      updatedAfter,
      includeDeleted: texts["include_deleted"] === "true",
      ids: listOf(texts["ids"]),
      remoteIds: listOf(texts["remote_ids"]),
      filters
    },
    pageSize: size,
    cursor: texts["cursor"] ?? null,
    ignored: Object.keys(texts).filter((name) =>
      !sharedParameters.includes(name) && !(lists[model].filters as ReadonlyArray<string>).includes(name)
    )
  })
}

const listOf = (text: string | undefined): ReadonlyArray<string> =>
  (text ?? "").split(",").map((value) => value.trim()).filter((value) => value !== "")

const sizeOf = (text: string | undefined): number | null => {
  if (text === undefined) return pageSize.default
  const size = /^\d{1,4}$/.test(text) ? Number(text) : 0
  return size >= pageSize.min && size <= pageSize.max ? size : null
}

/** Without a zone it is UTC; without a time, midnight. */
const timeOf = (text: string | undefined): number | null | "malformed" => {
  if (text === undefined) return null
  if (!updatedAfterPattern.test(text)) return "malformed"
  const bare = text.replace(/Z$/, "")
  const at = Date.parse(bare.includes("T") ? `${bare}Z` : `${bare}T00:00:00Z`)
  return Number.isNaN(at) ? "malformed" : at
}
