/**
 * What is answered to a request that does not fit the contract. Hides how what is wrong with it is told: each fault with
 * its place, and what to do next.
 */
import * as Effect from "effect/Effect"
import type { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as SchemaIssue from "effect/SchemaIssue"
import { InternalError, RequestMalformed } from "./Problem.ts"

/** Of an API: requests are answered so. */
export class RequestValidation
  extends HttpApiMiddleware.Service<RequestValidation>()("rollcall/http/RequestValidation", {
    error: [RequestMalformed, InternalError]
  })
{}

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** The parts of a request as people call them. */
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

/** In words, without what was sent. */
const describe = ({ keys, message, part }: RequestIssue): string =>
  `in the ${partNames[part] ?? part}${keys.length === 0 ? "" : `, ${keys.join(".")}`}: ${message}`

export const layer = HttpApiMiddleware.layerSchemaErrorTransform(
  RequestValidation,
  (error, { endpoint: { method, path } }) => {
    const faults = issuesOf(error)
    const detail = faults.map(describe).join("; ")
    if (error.kind === "Body" || error.kind === "ResponseHeaders") {
      return Effect.logError("an answer does not fit the API").pipe(
        Effect.annotateLogs({ path, error: detail }),
        Effect.andThen(
          HttpServerRespondable.toResponse(new InternalError({ detail: "the log of this process says more" }))
        )
      )
    }
    return Effect.fail(
      new RequestMalformed({
        detail,
        hint: `correct that; GET /docs describes ${method} ${path}`,
        errors: faults.map(({ keys, message, part }) => ({ path: [part, ...keys], message }))
      })
    )
  }
)
