/** Answers requests that do not match the contract. */
import * as Effect from "effect/Effect"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import type * as Schema from "effect/Schema"
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

const pathText = (keys: ReadonlyArray<string | number>): string => keys.length === 0 ? "" : `, ${keys.join(".")}`

/** The faults that a schema found, without the values that were sent. */
export const issuesOf = (error: Schema.SchemaError) =>
  formatIssues(error.issue).issues.map(({ message, path = [] }) => ({ keys: path.map(keyOf), message }))

export const layer = HttpApiMiddleware.layerSchemaErrorTransform(
  RequestValidation,
  ({ cause, kind }, { endpoint: { method, path } }) => {
    const part = kind.toLowerCase()
    const faults = issuesOf(cause)
    // never quotes the value that was sent
    const detail = faults.map(({ keys, message }) => `in the ${partNames[part] ?? part}${pathText(keys)}: ${message}`)
      .join("; ")
    if (kind === "Body" || kind === "ResponseHeaders") {
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
        errors: faults.map(({ keys, message }) => ({ path: [part, ...keys], message }))
      })
    )
  }
)
