/**
 * What is asked of the API, ready to be sent: method, path, query and body; or every fault of it. Hides how parameters
 * become addresses and what is checked before anything leaves.
 *
 * Invariants
 * 1. A list carries all its filters on every page; the cursor comes on top
 * 2. Only a write has a body, and every write has one
 * 3. No fault repeats a value: bodies are personal data   (I11)
 *
 * Gotchas
 * - A parameter that is a dot segment would address something else, however it is escaped: it is refused.
 * - A pattern of the form that cannot be matched in linear time is counted and left to the API, which has the last word.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { largestBodyBytes } from "../api/Attachments.ts"
import { checkForm } from "../api/FormCheck.ts"
import { CreateEmployee, type EmployeeForm } from "../api/Forms.ts"
import { pageSize } from "../api/Lists.ts"
import type { EndpointName } from "../api/Permissions.ts"
import { checkProficiency, ExpectSkill, type ProficiencyScale, RateSkill } from "../api/Proficiency.ts"
import { type ReadName, reads } from "../api/Reads.ts"
import { type Write, type WriteName, writes, writeSchemas } from "../api/Writes.ts"
import { registry } from "../domain/Model.ts"
import { deepest, isDeeper } from "./Answer.ts"
import { Invalid, type PageRequest, type Priority, readParams } from "./Source.ts"

export interface Call {
  readonly account: string
  /** null: of the account, sent without the integration header. */
  readonly integration: string | null
  readonly endpoint: EndpointName
  readonly priority: Priority
  readonly method: "GET" | Write["method"]
  /** Relative to the account's address. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string | null
  /** Passed on by the service while we wait: counts for the integration's concurrency. */
  readonly live: boolean
}

type Fault = Invalid["faults"][number]

// ---- lists --------------------------------------------------------------------------------------------------------

/** `cursorParameter`: what the account calls it. */
export const ofPage = (request: PageRequest, cursorParameter: string): Call => ({
  account: request.account,
  integration: request.integration,
  endpoint: request.model === "assessment.package" ? "assessmentPackages" : request.model,
  priority: request.priority,
  method: "GET",
  path: registry[request.model].path,
  query: registry[request.model].full === true ? {} : {
    page_size: String(pageSize.max),
    include_deleted: "true",
    ignore_unsupported_filters: "true",
    ...(request.updatedAfter === null ? {} : { updated_after: new Date(request.updatedAfter).toISOString() }),
    ...(request.ids === null ? {} : { ids: request.ids.join(",") }),
    ...(request.cursor === null ? {} : { [cursorParameter]: request.cursor })
  },
  body: null,
  live: false
})

// ---- checks -------------------------------------------------------------------------------------------------------

const pointer = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

/** Issues of a schema name what is expected, never what was given. */
const shapeFaults = (place: string, schema: Schema.Codec<unknown, unknown>, value: unknown): ReadonlyArray<Fault> => {
  const result = Schema.decodeUnknownResult(schema)(value, { errors: "all" })
  if (Result.isSuccess(result)) return []
  return issuesOf(result.failure.issue).issues.map(({ message, path = [] }) => ({
    path: place + pointer(path as ReadonlyArray<PropertyKey>),
    rule: "shape",
    message
  }))
}

const isSegment = (text: string): boolean => !/^\.{1,2}$/.test(text) && text.isWellFormed()

const paramFaults = (schema: Schema.Codec<unknown, unknown>, params: Readonly<Record<string, unknown>>) => [
  ...shapeFaults("/params", schema, params),
  ...Object.entries(params)
    .filter(([, value]) => typeof value === "string" && !isSegment(value))
    .map(([name]) => ({
      path: pointer(["params", name]),
      rule: "shape",
      message: "cannot be part of an address"
    }))
]

const formPatterns = Metric.counter("rollcall_form_patterns_refused_total", {
  description: "Answers to employee forms sent unchecked against a pattern that linear time does not allow.",
  incremental: true
})

const isCreateEmployee = Schema.is(CreateEmployee)
const isRateSkill = Schema.is(RateSkill)
const isExpectSkill = Schema.is(ExpectSkill)

const formFaults = Effect.fnUntraced(function*(form: EmployeeForm, body: CreateEmployee) {
  const faults = checkForm(form, body.properties)
  const [unchecked, broken] = [true, false].map((refused) =>
    faults.filter(({ rule }) => (rule === "pattern_refused") === refused)
  )
  if (unchecked!.length > 0) yield* Metric.update(formPatterns, unchecked!.length)
  return broken!.map((fault) => ({ ...fault, path: `/body/properties${fault.path}` }))
})

const scaleFaults = (scale: ProficiencyScale, write: WriteName, body: unknown): ReadonlyArray<Fault> => {
  const [path, proficiency] = write === "rateSkill"
    ? ["/body/rating/proficiency", isRateSkill(body) ? body.rating?.proficiency : null]
    : ["/body/expected_proficiency", isExpectSkill(body) ? body.expected_proficiency : null]
  const message = proficiency == null ? null : checkProficiency(scale, proficiency)
  return message === null ? [] : [{ path, rule: "scale", message }]
}

interface Unchecked {
  readonly write: WriteName
  readonly params: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly form?: EmployeeForm
  readonly scale?: ProficiencyScale
}

const bodyFaults = Effect.fnUntraced(function*({ body, form, scale, write }: Unchecked) {
  if (isDeeper(body, deepest)) {
    return [{ path: "/body", rule: "size", message: `is nested deeper than ${deepest} levels` }]
  }
  const misshapen = shapeFaults("/body", writeSchemas[write].body, body)
  if (misshapen.length > 0) return misshapen
  if (form !== undefined && isCreateEmployee(body)) return yield* formFaults(form, body)
  return scale === undefined ? [] : scaleFaults(scale, write, body)
})

// ---- reads and writes ---------------------------------------------------------------------------------------------

/** The path, and the parameters that are no part of it. */
const addressed = (template: string, params: Readonly<Record<string, unknown>>) => {
  const query = new Map(Object.entries(params).map(([name, value]) => [name, String(value)]))
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = query.get(name) ?? ""
    query.delete(name)
    return encodeURIComponent(value)
  })
  return { path, query: Object.fromEntries(query) }
}

export const ofRead = Effect.fnUntraced(function*(request: {
  readonly account: string
  readonly integration: string | null
  readonly read: ReadName
  readonly params: Readonly<Record<string, unknown>>
  readonly priority: Priority
}): Effect.fn.Return<Call, Invalid> {
  const { account, integration, params, priority, read } = request
  const faults = paramFaults(readParams[read], params)
  if (faults.length > 0) return yield* new Invalid({ faults })
  return {
    account,
    integration,
    endpoint: read,
    priority,
    method: "GET",
    ...addressed(reads[read].path, params),
    body: null,
    live: reads[read].live
  }
})

export const ofWrite = Effect.fnUntraced(function*(
  request: Unchecked & { readonly account: string; readonly integration: string }
): Effect.fn.Return<Call, Invalid> {
  const { account, integration, params, write } = request
  const faults = [
    ...paramFaults(Schema.Struct(writeSchemas[write].params), params),
    ...(yield* bodyFaults(request))
  ]
  if (faults.length > 0) return yield* new Invalid({ faults })
  const body = JSON.stringify(request.body)
  if (Buffer.byteLength(body) > largestBodyBytes) {
    const message = `is larger than ${largestBodyBytes} bytes`
    return yield* new Invalid({ faults: [{ path: "/body", rule: "size", message }] })
  }
  const { path } = addressed(writes[write].path, params)
  return {
    account,
    integration,
    endpoint: write,
    priority: "write",
    method: writes[write].method,
    path,
    query: {},
    body,
    live: true
  }
})
