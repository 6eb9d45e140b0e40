/** HTTP requests and responses in the form in which tests read and write them. */
import * as Effect from "effect/Effect"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"

/** An HTTP request that the handler sent. */
export interface Request {
  readonly method: string
  readonly url: string
  /** Header names are lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * The response of the other server. A body that is not a string is sent as JSON. `unreachable`: the server does not receive
 * the request. `response lost`: the server receives the request, but its response does not arrive.
 */
export type MockResponse =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: unknown }
  | "unreachable"
  | "response lost"

const withoutBody: ReadonlySet<number> = new Set([204, 205, 304])
/** Tracing headers, which the HTTP client adds itself. */
const tracingHeaders = /^(traceparent|b3|x-b3-.*)$/

export const toSentRequest = Effect.fnUntraced(
  function*(request: HttpClientRequest.HttpClientRequest): Effect.fn.Return<Request> {
    const web = yield* Effect.orDie(HttpClientRequest.toWeb(request))
    return {
      method: web.method,
      url: web.url,
      headers: Object.fromEntries([...web.headers].filter(([name]) => !tracingHeaders.test(name))),
      body: yield* Effect.promise(() => web.text())
    }
  }
)

export const toClientResponse = (
  request: HttpClientRequest.HttpClientRequest,
  mock: MockResponse
): Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> => {
  if (typeof mock === "string") {
    const reason = new HttpClientError.TransportError({ request, description: mock })
    return Effect.fail(new HttpClientError.HttpClientError({ reason }))
  }
  const { body, headers = {}, status } = mock
  if (body === undefined || withoutBody.has(status)) {
    return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(null, { status, headers })))
  }
  const response = typeof body === "string"
    ? new Response(body, { status, headers })
    : Response.json(body, { status, headers })
  return Effect.succeed(HttpClientResponse.fromWeb(request, response))
}
