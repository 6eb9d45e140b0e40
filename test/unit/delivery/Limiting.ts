/** An API that asks for a pause, behind the real adapter. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"

export const sourceOf = (client: HttpClient.HttpClient) =>
  UnifiedApi.layer({
    accounts: { default: { url: "https://api.example/v1", key: Effect.succeed(Redacted.make("k")) } },
    retryBase: "1 second"
  }).pipe(Layer.provide(Layer.succeed(HttpClient.HttpClient, client)))

/** An API that refuses the first requests for its rate limit, and what it was asked. */
export const limiting = (refusals: number, seconds: number) => {
  const asked: Array<{ readonly at: number; readonly status: number }> = []
  const client = HttpClient.make((request) =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      const status = asked.length < refusals ? 429 : 200
      asked.push({ at, status })
      const body = status === 200
        ? { status: "success", data: { results: [], next: null } }
        : { status: "error", error: { code: "PLATFORM.RATE_LIMIT_EXCEEDED", title: "", message: "", log_url: null } }
      const headers = { "retry-after": String(seconds) }
      return HttpClientResponse.fromWeb(request, new Response(JSON.stringify(body), { status, headers }))
    })
  )
  return { asked, source: sourceOf(client), statuses: () => asked.map(({ status }) => status) }
}

/** Lets virtual time pass, `step` seconds at once, and real turns between. */
export const pass = (seconds: number, step = 1) =>
  Effect.gen(function*() {
    for (let passed = 0; passed < seconds; passed += step) {
      for (let turn = 0; turn < 5; turn++) {
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      yield* TestClock.adjust(step * 1_000)
    }
  })
