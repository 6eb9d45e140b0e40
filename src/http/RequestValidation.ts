/**
 * Answers requests that do not match the contract. Hides how faults are described: each with its location in the request,
 * and with a hint.
 */
import * as Effect from "effect/Effect"
import type { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as SchemaIssue from "effect/SchemaIssue"
import { InternalError, RequestMalformed } from "./Problem.ts"

/** The middleware of the API that adds these answers. */
export class RequestValidation
  extends HttpApiMiddleware.Service<RequestValidation>()("rollcall/http/RequestValidation", {
    error: [RequestMalformed, InternalError]
  })
{}

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** The common names of the parts of a request. */
const partNames: Readonly<Record<string, string>> = { params: "path", payload: "body" }

const keyOf = (segment: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof segment === "object" ? segment.key : segment
  return typeof key === "number" ? key : String(key)
}

const issuesOf = ({ cause, kind }: HttpApiSchemaError) =>
  formatIssues(cause.issue).issues.map(({ message, path = [] }) => ({
    part: kind.toLowerCase(),
    keys: path.map(keyOf),
    message
  }))

type RequestIssue = ReturnType<typeof issuesOf>[number]

/** Describes a fault without quoting the value that was sent. */
const describe = ({ keys, message, part }: RequestIssue): string =>
  `in the ${partNames[part] ?? part}${keys.length === 0 ? "" : `, ${keys.join(".")}`}: ${message}`

export const layer = HttpApiMiddleware.layerSchemaErrorTransform(
  RequestValidation,
  (error, { endpoint: { method, path } }) => {
    const faults = issuesOf(error)
    const detail = faults.map(describe).join("; ")
    if (error.kind === "Body" || error.kind === "ResponseHeaders") {
      return Effect.logError("response does not match the API contract").pipe(
        Effect.annotateLogs({ path, error: detail }),
        Effect.andThen(
          HttpServerRespondable.toResponse(new InternalError({ detail: "see the log of this process for details" }))
        )
      )
    }
    return Effect.fail(
      new RequestMalformed({
        detail,
        hint: `correct the request; GET /docs describes ${method} ${path}`,
        errors: faults.map(({ keys, message, part }) => ({ path: [part, ...keys], message }))
      })
    )
  }
)
