/** HTTP requests and answers as a test sees and writes them: hides the client's own forms. */
import * as Effect from "effect/Effect"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"

/** A request that was sent. */
export interface Request {
  readonly method: string
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * What the other end answers; a body that is no text goes as JSON. `unreachable`: it never sees the request.
 * `response lost`: it does, and nobody hears of it.
 */
export type MockResponse =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: unknown }
  | "unreachable"
  | "response lost"

/** Requests that change nothing at the other end. */
export const safeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"])

const hollow: ReadonlySet<number> = new Set([204, 205, 304])
/** What the client adds on its own. */
const traced = /^(traceparent|b3|x-b3-.*)$/

export const toSentRequest = Effect.fnUntraced(
  function*(request: HttpClientRequest.HttpClientRequest): Effect.fn.Return<Request> {
    const web = yield* Effect.orDie(HttpClientRequest.toWeb(request))
    return {
      method: web.method,
      url: web.url,
      headers: Object.fromEntries([...web.headers].filter(([name]) => !traced.test(name))),
      body: yield* Effect.promise(() => web.text())
    }
  }
)

export const toClientResponse = (
  request: HttpClientRequest.HttpClientRequest,
  answer: MockResponse
): Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> => {
  if (typeof answer === "string") {
    const reason = new HttpClientError.TransportError({ request, description: answer })
    return Effect.fail(new HttpClientError.HttpClientError({ reason }))
  }
  const { body, headers = {}, status } = answer
  if (body === undefined || hollow.has(status)) {
    return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(null, { status, headers })))
  }
  const response = typeof body === "string"
    ? new Response(body, { status, headers })
    : Response.json(body, { status, headers })
  return Effect.succeed(HttpClientResponse.fromWeb(request, response))
}
