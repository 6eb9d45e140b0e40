/**
 * What is answered to a request that does not fit the contract. Hides how what is wrong with it is told: each fault with
 * its place, and what to do next.
 */
import * as Effect from "effect/Effect"
import type { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as SchemaIssue from "effect/SchemaIssue"
import { Defect, RequestMalformed } from "./Problem.ts"

/** Of an API: requests are answered so. */
export class Malformed extends HttpApiMiddleware.Service<Malformed>()("rollcall/ops/Malformed", {
  error: [RequestMalformed, Defect]
}) {}

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** The parts of a request as people call them. */
const parts: Readonly<Record<string, string>> = { params: "path", payload: "body" }

const keyOf = (segment: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof segment === "object" ? segment.key : segment
  return typeof key === "number" ? key : String(key)
}

const faultsOf = ({ cause, kind }: HttpApiSchemaError) =>
  formatIssues(cause.issue).issues.map(({ message, path = [] }) => ({
    part: kind.toLowerCase(),
    keys: path.map(keyOf),
    message
  }))

type Fault = ReturnType<typeof faultsOf>[number]

/** In words, without what was sent. */
const said = ({ keys, message, part }: Fault): string =>
  `in the ${parts[part] ?? part}${keys.length === 0 ? "" : `, ${keys.join(".")}`}: ${message}`

export const layer = HttpApiMiddleware.layerSchemaErrorTransform(Malformed, (error, { endpoint: { method, path } }) => {
  const faults = faultsOf(error)
  const detail = faults.map(said).join("; ")
  if (error.kind === "Body" || error.kind === "ResponseHeaders") {
    return Effect.logError("an answer does not fit the API").pipe(
      Effect.annotateLogs({ path, fault: detail }),
      Effect.andThen(HttpServerRespondable.toResponse(new Defect({ detail: "the log of this process says more" })))
    )
  }
  return Effect.fail(
    new RequestMalformed({
      detail,
      hint: `correct that; GET /docs describes ${method} ${path}`,
      errors: faults.map(({ keys, message, part }) => ({ path: [part, ...keys], message }))
    })
  )
})
