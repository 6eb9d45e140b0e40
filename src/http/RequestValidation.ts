/** Answers requests that do not match the contract. */
import * as Effect from "effect/Effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { closestName } from "../domain/ClosestName.ts"
import { InternalError, RequestMalformed } from "./Problem.ts"

/** The middleware of the API that adds these answers. */
export class RequestValidation
  extends HttpApiMiddleware.Service<RequestValidation>()("rollcall/http/RequestValidation", {
    error: [RequestMalformed, InternalError]
  })
{}

const unknownProperty = "unknown property"
/** Longest name that is quoted in full, because the name of an unknown property may be a value in the wrong place. */
const longestName = 40

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => issue._tag === "UnexpectedKey" ? unknownProperty : SchemaIssue.defaultLeafHook(issue)
})

/** The common names of the parts of a request. */
const partNames: Readonly<Record<string, string>> = { params: "path", payload: "body" }

const keyOf = (segment: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof segment === "object" ? segment.key : segment
  if (typeof key === "number") return key
  const name = String(key)
  return name.length > longestName ? `${name.slice(0, longestName)}…` : name
}

const pathText = (keys: ReadonlyArray<string | number>): string => keys.length === 0 ? "" : `, ${keys.join(".")}`

/** The faults that a schema found, without the values that were sent. */
export const issuesOf = (error: Schema.SchemaError) =>
  formatIssues(error.issue).issues.map(({ message, path = [] }) => ({ keys: path.map(keyOf), message }))

/** The names of the properties that the body of a request may have. */
const propertiesOf = ({ payload }: Pick<HttpApiEndpoint.Top, "payload">): ReadonlyArray<string> =>
  [...payload.values()].flatMap(({ schemas }) => schemas).flatMap(({ ast }) =>
    SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
  )

/** The closest property to the first unknown one of the body itself; null if there is no unknown one. */
const hintOf = (faults: ReturnType<typeof issuesOf>, endpoint: Pick<HttpApiEndpoint.Top, "payload">): string | null => {
  const unknown = faults.find(({ keys, message }) => message === unknownProperty && keys.length === 1)?.keys[0]
  const known = propertiesOf(endpoint)
  return unknown === undefined || known.length === 0
    ? null
    : `did you mean \`${closestName(String(unknown), known)}\`? The properties are ${known.join(", ")}`
}

export const layer = HttpApiMiddleware.layerSchemaErrorTransform(
  RequestValidation,
  ({ cause, kind }, { endpoint }) => {
    const { method, path } = endpoint
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
        hint: hintOf(faults, endpoint) ?? `correct the request; GET /docs describes ${method} ${path}`,
        errors: faults.map(({ keys, message }) => ({ path: [part, ...keys], message }))
      })
    )
  }
)
