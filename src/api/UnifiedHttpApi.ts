/**
 * All 27 endpoints as one `HttpApi`: defines the requests and responses of a server, and generates the OpenAPI document.
 *
 * Source: docs/contract.md, "Shared list contract", "List endpoints", "Other reads", "Writes", "Authentication".
 *
 * Invariants
 * 1. Paths, methods, permissions and schemas come from the tables `lists`, `reads` and `writes`
 *
 * Gotchas
 * - The names `cursor`, `job_ids`, `application_ids`, `types`, `review_cycle_ids`, `reviewee_ids`, `statuses` and
 *   `name_contains` are our assumptions: the specification does not show them.
 * - An error response is the error envelope with any 4xx or 5xx status; the document lists the usual statuses.
 * - `removeTag` is a DELETE with a body; the response of `updateInterview` has no `warnings`.
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
import { ErrorEnvelope } from "./ErrorClassification.ts"
import { StaffingEntityId } from "./Forms.ts"
import {
  cursorParameter,
  type IncrementalModel,
  incrementalModels,
  lists,
  pageSizeLimits,
  updatedAfterPattern
} from "./Lists.ts"
import { completeDocument, listDocs } from "./OpenApiDocument.ts"
import { reads, readSchemas } from "./Reads.ts"
import { recordSchemas } from "./Records.ts"
import { ToolCategory } from "./Tools.ts"
import { Empty, type Write, type WriteName, writes, writeSchemas } from "./Writes.ts"

// ---- query --------------------------------------------------------------------------------------------------------

/** Comma-separated values; an empty string means no restriction and decodes to `[]`. */
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
  Schema.isBetween({ minimum: pageSizeLimits.min, maximum: pageSizeLimits.max })
)

export const UpdatedAfter = Schema.String.check(Schema.isPattern(updatedAfterPattern))

/** The query parameters of every list. Different filters combine with AND, the values of one filter with OR. */
export const sharedQuery = {
  /** `data.next` of the previous page. */
  [cursorParameter]: Schema.optionalKey(Schema.String),
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

// ---- responses ----------------------------------------------------------------------------------------------------

export const Warnings = Schema.Array(Schema.Struct({ message: Schema.String }))

/** The envelope of a successful response. */
export const successEnvelope = <S extends Schema.Top>(data: S) =>
  Schema.Struct({ status: Schema.Literal("success"), data, warnings: Schema.optionalKey(Warnings) })

/** One page of a list; `next` is null on the last page. */
export const pageOf = <S extends Schema.Top>(record: S) =>
  successEnvelope(Schema.Struct({ next: Schema.NullOr(Schema.String), results: Schema.Array(record) }))

const errorResponsesFor = (...statuses: ReadonlyArray<number>) =>
  statuses.map((status) => ErrorEnvelope.pipe(HttpApiSchema.status(status)))
const errorResponses = errorResponsesFor(400, 401, 403, 404, 409, 429, 500, 502, 503, 504)

// ---- endpoints ----------------------------------------------------------------------------------------------------

/** Checks `Authorization: Bearer <key>`; rejects a request with the error envelope. */
export class Authorization extends HttpApiMiddleware.Service<Authorization>()("rollcall/api/Authorization", {
  security: { key: HttpApiSecurity.bearer }
}) {}

/** `<tool>:<identifier>`. */
export const IntegrationHeader = { "x-integration-id": Schema.String.check(Schema.isPattern(/^[^:\s]+:\S+$/u)) }

const listEndpoint = <const M extends IncrementalModel>(model: M) =>
  HttpApiEndpoint.get(model, lists[model].path, {
    headers: IntegrationHeader,
    query: queryOf(model),
    success: pageOf(recordSchemas[model]),
    error: errorResponses
  }).annotateMerge(OpenApi.annotations(listDocs(lists[model])))

type ListEndpoint = { readonly [M in IncrementalModel]: ReturnType<typeof listEndpoint<M>> }[IncrementalModel]

export class Lists extends HttpApiGroup.make("lists", { topLevel: true })
  .add(...incrementalModels.map((model) => listEndpoint(model)) as unknown as readonly [ListEndpoint])
  .middleware(Authorization)
{}

// ---- other reads --------------------------------------------------------------------------------------------------

/** Converts `/a/{b}` to the router's syntax, `/a/:b`. */
const routeOf = (path: `/${string}`) => path.replaceAll(/\{(\w+)\}/g, ":$1") as `/${string}`

/** OpenAPI annotations from the tables, for properties that the schemas do not express. */
const endpointAnnotations = ({ permission, maturity, summary }: Pick<Write, "permission" | "maturity" | "summary">) => {
  const sentences = [
    ...(permission === null ? [] : [`Needs the permission "${permission}".`]),
    ...(maturity === "closed beta" ? ["Closed beta: offered to selected customers."] : []),
    ...(maturity === "deprecated" ? ["Deprecated: attach to the application instead."] : [])
  ]
  return OpenApi.annotations({
    summary,
    ...(sentences.length > 0 && { description: sentences.join(" ") }),
    ...(maturity === "deprecated" && { deprecated: true }),
    override: {
      ...(permission !== null && { "x-permission": permission }),
      ...(maturity === "closed beta" && { "x-beta": true })
    }
  })
}

export class Reads extends HttpApiGroup.make("reads", { topLevel: true })
  .add(
    HttpApiEndpoint.get("attachments", routeOf(reads.attachments.path), {
      headers: IntegrationHeader,
      params: { application_id: Schema.NonEmptyString },
      success: successEnvelope(readSchemas.attachments),
      error: errorResponses
    }).annotateMerge(endpointAnnotations(reads.attachments)),
    HttpApiEndpoint.get("employeeForm", routeOf(reads.employeeForm.path), {
      headers: IntegrationHeader,
      query: { staffing_entity_id: Schema.optionalKey(StaffingEntityId) },
      success: successEnvelope(readSchemas.employeeForm),
      error: errorResponses
    }).annotateMerge(endpointAnnotations(reads.employeeForm)),
    HttpApiEndpoint.get("assessmentPackages", routeOf(reads.assessmentPackages.path), {
      headers: IntegrationHeader,
      success: successEnvelope(readSchemas.assessmentPackages),
      error: errorResponses
    }).annotateMerge(endpointAnnotations(reads.assessmentPackages)),
    HttpApiEndpoint.get("tools", routeOf(reads.tools.path), {
      params: { category: ToolCategory },
      success: successEnvelope(readSchemas.tools),
      error: errorResponses
    }).annotateMerge(endpointAnnotations(reads.tools))
  )
  .middleware(Authorization)
{}

// ---- writes -------------------------------------------------------------------------------------------------------

const writeErrorResponses = [...errorResponses, ...errorResponsesFor(413, 415)]

/** The type names one method for all writes: clients and handlers of requests with a body are typed alike. */
const writeEndpoint = <const W extends WriteName, S extends Schema.Top>(name: W, success: S) =>
  HttpApiEndpoint.make(writes[name].method as "POST")(name, routeOf(writes[name].path), {
    headers: IntegrationHeader,
    params: writeSchemas[name].params,
    payload: writeSchemas[name].body,
    success,
    error: writeErrorResponses
  }).annotateMerge(endpointAnnotations(writes[name]))

const write = <const W extends WriteName>(name: W) => writeEndpoint(name, successEnvelope(writeSchemas[name].data))

export class Writes extends HttpApiGroup.make("writes", { topLevel: true })
  .add(
    write("createApplication"),
    write("addResultLink"),
    write("addTag"),
    write("removeTag"),
    writeEndpoint("updateInterview", Schema.Struct({ status: Schema.Literal("success"), data: Empty })),
    write("addCandidateAttachment"),
    write("createEmployee"),
    write("uploadDocument"),
    write("rateSkill"),
    write("expectSkill"),
    write("replacePackages"),
    write("deactivateCourse")
  )
  .middleware(Authorization)
{}

// ---- all ----------------------------------------------------------------------------------------------------------

/** Paths are relative to the account's base URL, which ends in `/v1`. */
export class UnifiedHttpApi extends HttpApi.make("unified-api")
  .add(Lists, Reads, Writes)
  .annotateMerge(OpenApi.annotations({
    title: "Unified HR, recruiting, assessment and learning API, as Rollcall uses it",
    version: "1.0.0",
    transform: completeDocument
  }))
{}
