/**
 * Refuses requests with a null character in the path, the query or the body. No name, id or text of a store contains one: PostgreSQL
 * cannot store it, and would fail each statement that compares a text with it.
 */
import * as Effect from "effect/Effect"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { RequestMalformed } from "./Problem.ts"

/** The middleware of the API that refuses these requests. */
export class NullCharacters extends HttpApiMiddleware.Service<NullCharacters>()("rollcall/http/NullCharacters", {
  error: RequestMalformed
}) {}

/** The escape of a null character in JSON, after an even number of backslashes. */
const escape = /(?<!\\)(?:\\\\)*\\u0000/

const refusalIn = (part: "body" | "url") =>
  new RequestMalformed({
    detail: `in the ${part === "url" ? "path or query" : part}: a null character`,
    hint: "remove it; no name, id or text contains one",
    errors: [{ path: [part], message: "null character" }]
  })

export const layer = Layer.succeed(NullCharacters, (handler) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest
    if (/%00/.test(request.url)) return yield* refusalIn("url")
    if (request.method !== "POST") return yield* handler
    // the text is kept for the decoder of the body, which answers if it cannot be read
    const body = yield* Effect.orElseSucceed(request.text, () => "")
    return escape.test(body) ? yield* refusalIn("body") : yield* handler
  }))
