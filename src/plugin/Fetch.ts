/** The capability `fetch` of async functions: the global `fetch` over the handler's HTTP client. */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import { Transient } from "./Failure.ts"
import { describeNoResponse } from "./Send.ts"

const toClientRequest = Effect.fnUntraced(function*(request: Request) {
  const bytes = new Uint8Array(yield* Effect.promise(() => request.arrayBuffer()))
  const bare = HttpClientRequest.make(request.method as "GET")(request.url, {
    headers: Object.fromEntries(request.headers)
  })
  return request.body === null
    ? bare
    : HttpClientRequest.bodyUint8Array(bare, bytes, request.headers.get("content-type") ?? "application/octet-stream")
})

/** Fails when the signal of the request is aborted. */
const aborted = ({ signal }: Request) =>
  Effect.callback<never, Transient>((resume) => {
    const fail = () =>
      resume(Effect.fail(new Transient({ message: "no response: the signal of the request was aborted" })))
    if (signal.aborted) return fail()
    signal.addEventListener("abort", fail, { once: true })
    return Effect.sync(() => signal.removeEventListener("abort", fail))
  })

const exchange = Effect.fnUntraced(
  function*(request: Request) {
    const response = yield* HttpClient.execute(yield* toClientRequest(request))
    const web = HttpClientResponse.toWeb(response)
    if (Option.isSome(web)) return web.value
    const hasNoBody = response.status === 204 || response.status === 205 || response.status === 304
    return new Response(hasNoBody ? null : yield* response.arrayBuffer, {
      status: response.status,
      headers: response.headers
    })
  },
  Effect.catchTag(
    "HttpClientError",
    ({ reason }) => new Transient({ message: `no response: ${describeNoResponse(reason)}` })
  )
)

export const executeFetch = Effect.fnUntraced(
  function*(...[input, init]: Parameters<typeof globalThis.fetch>) {
    const request = new Request(input, init)
    return yield* Effect.raceFirst(aborted(request), exchange(request))
  }
)
