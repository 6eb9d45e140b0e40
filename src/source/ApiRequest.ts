/**
 * Builds a request to the API (method, path, query, body), or lists everything that is wrong with it.
 *
 * Invariants
 * 1. A list request carries all its filters on every page, in addition to the cursor
 * 2. Every write has a body, and no other request has one
 * 3. A validation message never repeats a value: bodies contain personal data   (I11)
 *
 * Gotchas
 * - If a form's pattern cannot be matched in linear time, the value is sent unchecked and counted; the API validates it.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { largestBodyBytes } from "../api/Attachments.ts"
import type { EndpointName } from "../api/Permissions.ts"
import { type ReadName, reads } from "../api/Reads.ts"
import { checkParams, checkWrite, type UncheckedWrite } from "../api/WriteCheck.ts"
import { type Write, writes } from "../api/Writes.ts"
import { isDeeper, maxDepth } from "../domain/Canonical.ts"
import type { ListEntry, Model } from "../domain/Model.ts"
import { Invalid, type PageRequest, type Priority, readParams } from "./Source.ts"

export interface ApiRequest {
  readonly account: string
  /** Null if the request belongs to the account and is sent without the integration header. */
  readonly integration: string | null
  readonly endpoint: EndpointName | Model
  readonly priority: Priority
  readonly method: "GET" | Write["method"]
  /** Relative to the account's base URL. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string | null
  /** The API forwards the request to the third-party system, so the integration's concurrency limit applies. */
  readonly forwarded: boolean
}

// ---- lists --------------------------------------------------------------------------------------------------------

/** `cursorParameter`: the account's name for the cursor parameter. `rows`: the maximum number of rows per page. */
export const forPage = (
  { path, unpaged }: ListEntry,
  request: PageRequest,
  cursorParameter: string,
  rows: number
): ApiRequest => ({
  account: request.account,
  integration: request.integration,
  endpoint: request.model === "assessment.package" ? "assessmentPackages" : request.model,
  priority: request.priority,
  method: "GET",
  path,
  query: unpaged === true ? {} : {
    page_size: String(rows),
    include_deleted: "true",
    ignore_unsupported_filters: "true",
    ...(request.updatedAfter === null ? {} : { updated_after: new Date(request.updatedAfter).toISOString() }),
    ...(request.ids === null ? {} : { ids: request.ids.join(",") }),
    ...(request.cursor === null ? {} : { [cursorParameter]: request.cursor })
  },
  body: null,
  forwarded: false
})

// ---- checks -------------------------------------------------------------------------------------------------------

const uncheckedPatterns = Metric.counter("rollcall_form_patterns_unchecked_total", {
  description:
    "Answers to employee forms that only the API checks, because the form's pattern cannot be matched in linear time",
  incremental: true
})

const validateWrite = Effect.fnUntraced(function*(request: UncheckedWrite) {
  if (isDeeper(request.body, maxDepth)) {
    return [{ path: "/body", rule: "size", message: `is nested deeper than ${maxDepth} levels` }]
  }
  const { broken = [], unchecked = [] } = Object.groupBy(
    checkWrite(request),
    ({ rule }) => rule === "pattern_unsupported" ? "unchecked" : "broken"
  )
  if (unchecked.length > 0) yield* Metric.update(uncheckedPatterns, unchecked.length)
  return broken
})

// ---- reads and writes ---------------------------------------------------------------------------------------------

/** Fills in the path; the parameters that the path does not contain become the query. */
const expandPath = (template: string, params: Readonly<Record<string, unknown>>) => {
  const query = new Map(Object.entries(params).map(([name, value]) => [name, String(value)]))
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = query.get(name) ?? ""
    query.delete(name)
    return encodeURIComponent(value)
  })
  return { path, query: Object.fromEntries(query) }
}

export const forRead = Effect.fnUntraced(function*(request: {
  readonly account: string
  readonly integration: string | null
  readonly read: ReadName
  readonly params: Readonly<Record<string, unknown>>
  readonly priority: Priority
}): Effect.fn.Return<ApiRequest, Invalid> {
  const { account, integration, params, priority, read } = request
  const faults = checkParams(readParams[read], params)
  if (faults.length > 0) return yield* new Invalid({ faults })
  return {
    account,
    integration,
    endpoint: read,
    priority,
    method: "GET",
    ...expandPath(reads[read].path, params),
    body: null,
    forwarded: reads[read].forwarded
  }
})

export const forWrite = Effect.fnUntraced(function*(
  request: UncheckedWrite & { readonly account: string; readonly integration: string }
): Effect.fn.Return<ApiRequest, Invalid> {
  const { account, integration, params, write } = request
  const faults = yield* validateWrite(request)
  if (faults.length > 0) return yield* new Invalid({ faults })
  const body = JSON.stringify(request.body)
  if (Buffer.byteLength(body) > largestBodyBytes) {
    const message = `is larger than ${largestBodyBytes} bytes`
    return yield* new Invalid({ faults: [{ path: "/body", rule: "size", message }] })
  }
  const { path } = expandPath(writes[write].path, params)
  return {
    account,
    integration,
    endpoint: write,
    priority: "write",
    method: writes[write].method,
    path,
    query: {},
    body,
    forwarded: true
  }
})
