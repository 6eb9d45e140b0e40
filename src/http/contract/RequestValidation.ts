/** Answers requests that do not match the contract. */
import * as Effect from "effect/Effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpRouter from "effect/http/HttpRouter"
import { ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { closestName } from "../../domain/ClosestName.ts"
import type { Models } from "../../domain/Model.ts"
import { InternalError, RequestMalformed } from "./Problem.ts"
import { knownNamesOf } from "./Schemas.ts"

/** The middleware of the API that adds these answers. */
export class RequestValidation
  extends HttpApiMiddleware.Service<RequestValidation>()("rollcall/http/RequestValidation", {
    error: [RequestMalformed, InternalError]
  })
{}

const unknownProperty = "unknown property"
/** Longest name or value that is compared, and longest name that is quoted in full, because it may be a value in the wrong place. */
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

/** The values that a parameter can have; none if they cannot be listed. */
const valuesOf = (models: Models, ast: SchemaAST.AST): ReadonlyArray<string> => {
  const names = knownNamesOf(ast)
  return names !== undefined
    ? names(models)
    : SchemaAST.isUnion(ast)
    ? ast.types.flatMap((type) => valuesOf(models, type))
    : SchemaAST.isArrays(ast)
    ? ast.rest.flatMap((type) => valuesOf(models, type))
    : SchemaAST.isLiteral(ast)
    ? [String(ast.literal)]
    : []
}

/** The closest value to the first unknown one of a parameter; null if its values cannot be listed. */
const valueHintOf = (
  models: Models,
  name: string | number | undefined,
  schema: { readonly ast: SchemaAST.AST } | undefined,
  given: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
): string | null => {
  const property = schema !== undefined && SchemaAST.isObjects(schema.ast)
    ? schema.ast.propertySignatures.find((one) => one.name === name)
    : undefined
  if (property === undefined) return null
  const known = valuesOf(models, property.type)
  const texts = [given[String(property.name)] ?? []].flat().flatMap((text) => text.split(","))
  const unknown = texts.find((text) => text !== "" && text.length <= longestName && !known.includes(text))
  return unknown === undefined || known.length === 0
    ? null
    : `did you mean \`${closestName(unknown, known)}\` for ${String(property.name)}?`
}

/** The hint for a wrong value in the query or the path. */
const parameterHint = Effect.fnUntraced(function*(
  kind: string,
  faults: ReturnType<typeof issuesOf>,
  { params, query }: Pick<HttpApiEndpoint.Top, "params" | "query">
) {
  const name = faults[0]?.keys[0]
  const models = yield* CurrentModels
  if (kind === "Query") return valueHintOf(models, name, query, yield* ParsedSearchParams)
  return kind === "Params" ? valueHintOf(models, name, params, (yield* HttpRouter.RouteContext).params) : null
})

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
    return Effect.flatMap(parameterHint(kind, faults, endpoint), (hint) =>
      Effect.fail(
        new RequestMalformed({
          detail,
          hint: hint ?? hintOf(faults, endpoint) ?? `correct the request; GET /docs describes ${method} ${path}`,
          errors: faults.map(({ keys, message }) => ({ path: [part, ...keys], message }))
        })
      ))
  }
)
