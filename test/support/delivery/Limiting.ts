/** An API that enforces a rate limit, behind the real adapter. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import { RequestBudget } from "../../../src/source/RequestBudget.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"

export const sourceOf = (client: HttpClient.HttpClient) =>
  UnifiedApi.layer({
    accounts: { default: { url: "https://api.example/v1", key: Effect.succeed(Redacted.make("k")) } },
    retryBase: "1 second"
  }).pipe(Layer.provide([Layer.succeed(HttpClient.HttpClient, client), RequestBudget.local]))

/** An API that refuses the first `refusals` requests because of its rate limit, and the requests that it got. */
export const limiting = (refusals: number, seconds: number) => {
  const requests: Array<{ readonly at: number; readonly status: number }> = []
  const client = HttpClient.make((request) =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      const status = requests.length < refusals ? 429 : 200
      requests.push({ at, status })
      const body = status === 200
        ? { status: "success", data: { results: [], next: null } }
        : { status: "error", error: { code: "PLATFORM.RATE_LIMIT_EXCEEDED", title: "", message: "", log_url: null } }
      const headers = { "retry-after": String(seconds) }
      return HttpClientResponse.fromWeb(request, new Response(JSON.stringify(body), { status, headers }))
    })
  )
  return { requests, source: sourceOf(client), statuses: () => requests.map(({ status }) => status) }
}

/** Advances the test clock in steps of `step` seconds, with turns of the event loop in between. */
export const pass = (seconds: number, step = 1) =>
  Effect.gen(function*() {
    for (let passed = 0; passed < seconds; passed += step) {
      for (let turn = 0; turn < 5; turn++) {
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      yield* TestClock.adjust(step * 1_000)
    }
  })
