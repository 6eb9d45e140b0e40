/**
 * Refuses requests with a query parameter or a body that their endpoint does not have. A misspelled filter would otherwise select
 * everything, and a filter in the body of a command for everything would be ignored.
 * Refuses requests with a null character too: no name, id or text of a store contains one. PostgreSQL cannot store it, and would fail each
 * statement that compares a text with it.
 *
 * Gotchas
 * - The router splits the query into parameters. It takes not only `?`, but also `;` and `#` after the path for the start of a query.
 * - A long name is quoted only in part, because it may be a value in the wrong place.
 * - An empty JSON object counts as an empty body: the console and other clients send it with every command.
 */
import * as Effect from "effect/Effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as SchemaAST from "effect/SchemaAST"
import { closestName } from "../../domain/ClosestName.ts"
import { RequestMalformed } from "./Problem.ts"

/** The middleware of the API that refuses these requests. */
export class UnknownParameters
  extends HttpApiMiddleware.Service<UnknownParameters>()("rollcall/http/UnknownParameters", {
    error: RequestMalformed
  })
{}

/** Longest name that is compared with the known ones, and that is quoted in full. */
const longestName = 40

/** The names of an endpoint's query parameters. */
export const queryParametersOf = ({ query }: Pick<HttpApiEndpoint.Top, "query">): ReadonlyArray<string> =>
  query !== undefined && SchemaAST.isObjects(query.ast)
    ? query.ast.propertySignatures.map(({ name }) => String(name))
    : []

/** Names that clients expect, because events and the documentation use the word, with the parameter that they mean. */
const otherNames: ReadonlyMap<string, string> = new Map([["record", "id"], ["record_id", "id"]])

/** The parameter that was probably meant. */
const meantBy = (name: string, known: ReadonlyArray<string>): string => {
  const other = otherNames.get(name)
  return other !== undefined && known.includes(other) ? other : closestName(name, known)
}

const quoted = (name: string): string =>
  JSON.stringify(name.length > longestName ? `${name.slice(0, longestName)}…` : name)

/** The fault in the query of a request with parameters of these names; null if the endpoint has all of them. */
export const findUnknownParameters = (
  known: ReadonlyArray<string>,
  names: ReadonlyArray<string>
): RequestMalformed | null => {
  const [first, ...others] = names.filter((name) => !known.includes(name))
  if (first === undefined) return null
  const closest = known.length > 0 && first.length <= longestName
    ? `did you mean \`${meantBy(first, known)}\`? `
    : ""
  const more = others.length === 0 ? "" : ` and ${others.length} more`
  return new RequestMalformed({
    detail: `in the query: this endpoint has no parameter ${quoted(first)}${more}`,
    hint: known.length === 0
      ? "leave out the query: this endpoint has no parameters"
      : `${closest}The parameters are ${known.join(", ")}`,
    errors: [first, ...others].slice(0, 10).map((name) => ({
      path: ["query", name.slice(0, longestName)],
      message: "unknown parameter"
    }))
  })
}

const unexpectedBody = new RequestMalformed({
  detail: "this command has no body",
  hint: "send it without a body, or with `{}`; its parameters are in the path and the query",
  errors: [{ path: ["payload"], message: "unexpected body" }]
})

/** The escape of a null character in JSON, after an even number of backslashes. */
const nullEscape = /(?<!\\)(?:\\\\)*\\u0000/

const nullIn = (part: "body" | "url") =>
  new RequestMalformed({
    detail: `in the ${part === "url" ? "path or query" : part}: a null character`,
    hint: "remove it; no name, id or text contains one",
    errors: [{ path: [part], message: "null character" }]
  })

const isNothing = (body: string): boolean => /^\s*(\{\s*\}\s*)?$/.test(body)

export const layer = Layer.succeed(
  UnknownParameters,
  (handler, { endpoint }) =>
    Effect.gen(function*() {
      const request = yield* HttpServerRequest
      if (/%00/.test(request.url)) return yield* nullIn("url")
      // the text is kept for the decoder of the body, which answers if it cannot be read
      const body = request.method === "POST" ? yield* Effect.orElseSucceed(request.text, () => "") : ""
      if (nullEscape.test(body)) return yield* nullIn("body")
      const names = Object.keys(yield* ParsedSearchParams)
      const problem = findUnknownParameters(queryParametersOf(endpoint), names)
      if (problem !== null) return yield* problem
      // the body of a GET has no meaning
      const takesBody = endpoint.method === "GET" || endpoint.payload.size > 0
      if (!takesBody && !isNothing(yield* Effect.orDie(request.text))) return yield* unexpectedBody
      return yield* handler
    })
)
