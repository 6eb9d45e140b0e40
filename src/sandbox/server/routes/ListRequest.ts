/**
 * Parses a list request by the query rules of the lists.
 *
 * Source: docs/contract.md, "Shared list contract", "List endpoints".
 *
 * Gotchas
 * - A filter on a field that the integration does not support makes the list empty, unless `ignore_unsupported_filters` is true.
 *   An empty filter value has no effect, except that a time must not be empty.
 * - An empty cursor is rejected. If it meant the first page, a client that continues after the last page would never end.
 */
import * as Effect from "effect/Effect"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Result from "effect/Result"
import { isDay } from "../../../api/Fields.ts"
import {
  cursorParameter as defaultCursorParameter,
  filterValues,
  type IncrementalModel,
  lists,
  pageSizeLimits,
  sharedParameters,
  timeFilters,
  updatedAfterPattern
} from "../../../api/Lists.ts"
import { type ApiError, invalidInput } from "../../world/ApiError.ts"
import type { ListQuery } from "../../world/ListQuery.ts"

interface ListRequest {
  readonly query: ListQuery
  readonly pageSize: number
  readonly cursor: string | null
  /** True if a filter is not supported, so that the list is empty. */
  readonly matchesNothing: boolean
  /** Names of parameters that the list does not apply: those that it does not know, and filters that the integration does not support. */
  readonly ignoredParameters: ReadonlyArray<string>
}

/** The query parameters of a request; rejected if a parameter occurs twice. */
export const queryParameters: Effect.Effect<
  Readonly<Record<string, string>>,
  ApiError,
  HttpServerRequest.ParsedSearchParams
> = Effect.flatMap(HttpServerRequest.ParsedSearchParams, (params) => {
  const values: Record<string, string> = {}
  for (const [name, value] of Object.entries(params)) {
    if (typeof value !== "string") return Effect.fail(invalidInput(`${name} is given more than once.`))
    values[name] = value
  }
  return Effect.succeed(values)
})

export const unknownParameterWarning = (name: string): string =>
  `The parameter "${name}" is unknown here and was ignored.`

const isIncremental = (model: string): model is IncrementalModel => Object.hasOwn(lists, model)

/** The validated query of a list; `unsupported` names the filters that the integration does not support. */
export const parseListRequest = (
  model: string,
  texts: Readonly<Record<string, string>>,
  unsupported: ReadonlyArray<string> = [],
  cursorParameter: string = defaultCursorParameter
): Result.Result<ListRequest, ApiError> => {
  const filters: Record<string, ReadonlyArray<string>> = {}
  const ownFilters = isIncremental(model) ? lists[model].filters : []
  for (const filter of ownFilters) {
    const chosen = parseList(texts[filter])
    const allowed = filterValues[filter]
    const wrong = allowed && chosen.find((value) => !allowed.includes(value))
    if (wrong !== undefined) {
      return Result.fail(invalidInput(`${filter}: "${wrong}" is not one of ${allowed?.join(", ")}.`))
    }
    filters[filter] = chosen
  }
  for (const name of timeFilters) {
    const time = Object.hasOwn(filters, name) ? parseTime(texts[name]) : null
    if (time === "malformed") return Result.fail(invalidInput(`${name} ${timeFormat}`))
    if (time !== null) filters[name] = [String(time)]
  }
  for (const name of ["include_deleted", "ignore_unsupported_filters"]) {
    const value = texts[name]
    if (value !== undefined && value !== "true" && value !== "false") {
      return Result.fail(invalidInput(`${name} must be true or false.`))
    }
  }
  if (texts[cursorParameter] === "") {
    return Result.fail(
      invalidInput(`${cursorParameter} is empty: leave it out for the first page; data.next is null on the last.`)
    )
  }
  const size = parsePageSize(texts["page_size"])
  if (size === null) {
    return Result.fail(
      invalidInput(`page_size must be a whole number from ${pageSizeLimits.min} to ${pageSizeLimits.max}.`)
    )
  }
  const updatedAfter = parseTime(texts["updated_after"])
  if (updatedAfter === "malformed") {
    return Result.fail(invalidInput(`updated_after ${timeFormat}`))
  }
  const known: ReadonlyArray<string> = [cursorParameter, ...sharedParameters, ...ownFilters]
  const droppedFilters = unsupported.filter((name) => parseList(texts[name]).length > 0)
  const supported = <A>(name: string, value: A, none: A): A => droppedFilters.includes(name) ? none : value
  return Result.succeed({
    query: {
      updatedAfter: supported("updated_after", updatedAfter, null),
      includeDeleted: texts["include_deleted"] === "true",
      ids: supported("ids", parseList(texts["ids"]), []),
      remoteIds: supported("remote_ids", parseList(texts["remote_ids"]), []),
      filters: Object.fromEntries(Object.entries(filters).map(([name, chosen]) => [name, supported(name, chosen, [])]))
    },
    pageSize: size,
    cursor: texts[cursorParameter] ?? null,
    matchesNothing: droppedFilters.length > 0 && texts["ignore_unsupported_filters"] !== "true",
    ignoredParameters: [...droppedFilters, ...Object.keys(texts).filter((name) => !known.includes(name))]
  })
}

const parseList = (text: string | undefined): ReadonlyArray<string> =>
  (text ?? "").split(",").map((value) => value.trim()).filter((value) => value !== "")

const parsePageSize = (text: string | undefined): number | null => {
  if (text === undefined) return pageSizeLimits.default
  const size = /^\d{1,4}$/.test(text) ? Number(text) : 0
  return size >= pageSizeLimits.min && size <= pageSizeLimits.max ? size : null
}

const timeFormat = "must look like YYYY-MM-DDTHH:mm:ss.sssZ and be a time that exists."

/** A time without a zone is UTC; a date without a time is midnight. */
const parseTime = (text: string | undefined): number | null | "malformed" => {
  if (text === undefined) return null
  if (!updatedAfterPattern.test(text) || !isDay(text.slice(0, 10))) return "malformed"
  const bare = text.replace(/Z$/, "")
  const at = Date.parse(bare.includes("T") ? `${bare}Z` : `${bare}T00:00:00Z`)
  return Number.isNaN(at) ? "malformed" : at
}
