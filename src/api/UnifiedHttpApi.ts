/**
 * The eleven lists as one `HttpApi`: what a server must accept and answer, and where the OpenAPI document comes from.
 *
 * Source: docs/contract.md, "Shared list contract", "List endpoints", "Authentication".
 *
 * Gotchas
 * - The names `cursor`, `job_ids`, `application_ids`, `types`, `review_cycle_ids`, `reviewee_ids`, `statuses` and
 *   `name_contains` are our assumptions: the specification does not show them.
 * - A refusal is the error envelope under any 4xx or 5xx status; the document lists the usual ones.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { ErrorEnvelope } from "./Errors.ts"
import { type IncrementalModel, lists, pageSize, updatedAfterPattern } from "./Lists.ts"
import { recordSchemas } from "./Records.ts"

// ---- query --------------------------------------------------------------------------------------------------------

/** Comma-separated values; an empty text means no restriction and decodes to `[]`. */
export const CommaList = Schema.String.pipe(
  Schema.decodeTo(Schema.Array(Schema.String), {
    decode: SchemaGetter.transform((joined) => joined.split(",").filter((value) => value !== "")),
    encode: SchemaGetter.transform((values) => values.join(","))
  })
)

const Flag = Schema.Literals(["true", "false"]).pipe(
  Schema.decodeTo(Schema.Boolean, {
    decode: SchemaGetter.transform((text) => text === "true"),
    encode: SchemaGetter.transform((flag) => flag ? "true" as const : "false" as const)
  })
)

const PageSize = Schema.FiniteFromString.check(
  Schema.isInt(),
  Schema.isBetween({ minimum: pageSize.min, maximum: pageSize.max })
)

export const UpdatedAfter = Schema.String.check(Schema.isPattern(updatedAfterPattern))

/** What every list takes. Distinct filters combine with AND, values of one filter with OR. */
export const sharedQuery = {
  /** `data.next` of the page before. */
  cursor: Schema.optionalKey(Schema.String),
  page_size: Schema.optionalKey(PageSize),
  updated_after: Schema.optionalKey(UpdatedAfter),
  include_deleted: Schema.optionalKey(Flag),
  ignore_unsupported_filters: Schema.optionalKey(Flag),
  ids: Schema.optionalKey(CommaList),
  remote_ids: Schema.optionalKey(CommaList)
} as const

type FilterOf<M extends IncrementalModel> = (typeof lists)[M]["filters"][number]

const queryOf = <const M extends IncrementalModel>(model: M) => {
  const filters: ReadonlyArray<FilterOf<M>> = lists[model].filters
  const own = Object.fromEntries(filters.map((name) => [name, Schema.optionalKey(CommaList)])) as {
    readonly [K in FilterOf<M>]: Schema.optionalKey<typeof CommaList>
  }
  return { ...sharedQuery, ...own }
}

// ---- answers ------------------------------------------------------------------------------------------------------

export const Warnings = Schema.Array(Schema.Struct({ message: Schema.String }))

/** One page: `next` is null on the last. */
export const pageOf = <S extends Schema.Top>(record: S) =>
  Schema.Struct({
    status: Schema.Literal("success"),
    data: Schema.Struct({ next: Schema.NullOr(Schema.String), results: Schema.Array(record) }),
    warnings: Schema.optionalKey(Warnings)
  })

const refusals = [400, 401, 403, 404, 409, 429, 500, 503].map((status) =>
  ErrorEnvelope.pipe(HttpApiSchema.status(status))
)

// ---- endpoints ----------------------------------------------------------------------------------------------------

/** Checks `Authorization: Bearer <key>`; what it refuses, it answers with the error envelope. */
export class Authorization extends HttpApiMiddleware.Service<Authorization>()("rollcall/api/Authorization", {
  security: { key: HttpApiSecurity.bearer }
}) {}

/** `<tool>:<identifier>`. */
export const IntegrationHeader = { "x-integration-id": Schema.String.check(Schema.isPattern(/^[^:\s]+:\S+$/)) }

const listEndpoint = <const M extends IncrementalModel>(model: M) =>
  HttpApiEndpoint.get(model, lists[model].path, {
    headers: IntegrationHeader,
    query: queryOf(model),
    success: pageOf(recordSchemas[model]),
    error: refusals
  })

export class Lists extends HttpApiGroup.make("lists", { topLevel: true })
  .add(
    listEndpoint("ats.application"),
    listEndpoint("ats.scorecard"),
    listEndpoint("ats.offer"),
    listEndpoint("ats.tag"),
    listEndpoint("hris.payslip"),
    listEndpoint("hris.performance_review"),
    listEndpoint("hris.performance_review_cycle"),
    listEndpoint("hris.staffing_entity"),
    listEndpoint("hris.legal_entity"),
    listEndpoint("hris.skill"),
    listEndpoint("hris.absence_type")
  )
  .middleware(Authorization)
{}

// ---- document -----------------------------------------------------------------------------------------------------

/** What a query parameter looks like in the document: the wire form of every parameter is text, which says too little. */
const parameterDocs: Readonly<Record<string, Record<string, unknown>>> = {
  page_size: { schema: { type: "integer", minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default } },
  updated_after: { schema: { type: "string", pattern: updatedAfterPattern.source } },
  include_deleted: { schema: { type: "boolean", default: false } },
  ignore_unsupported_filters: { schema: { type: "boolean", default: false } },
  cursor: { description: "`data.next` of the page before." },
  outcome: { description: "Use `outcomes`.", deprecated: true }
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

const documented = (parameter: Record<string, unknown>): Record<string, unknown> => {
  const name = String(parameter["name"])
  return parameter["in"] === "query"
    ? { ...parameter, ...(commaLists.has(name) ? commaListDoc : {}), ...parameterDocs[name] }
    : parameter
}

/** Further fields are no fault: generated objects are closed, ours are open. */
const isClosing = (key: string, value: unknown): boolean => key === "additionalProperties" && value === false

const document = (spec: Record<string, unknown>): Record<string, unknown> =>
  JSON.parse(JSON.stringify(spec, (key, value) => {
    if (isClosing(key, value)) return undefined
    return key === "parameters" && Array.isArray(value) ? value.map(documented) : value
  }))

/** Paths are relative to the account's base address, which ends in `/v1`. */
export class UnifiedHttpApi extends HttpApi.make("unified-api")
  .add(Lists)
  .annotateMerge(OpenApi.annotations({
    title: "Unified HR, recruiting, assessment and learning API, as Rollcall reads it",
    version: "1.0.0",
    transform: document
  }))
{}
