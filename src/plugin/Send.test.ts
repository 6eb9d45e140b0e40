/** The failure that follows from each HTTP response. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as TestClock from "effect/testing/TestClock"
import { send } from "./Send.ts"

const url = "https://someone.example/with/a/secret"

const answering = (status: number, headers: Record<string, string> = {}) =>
  HttpClient.make((request) =>
    Effect.succeed(HttpClientResponse.fromWeb(request, new Response(null, { status, headers })))
  )
const silent = HttpClient.make((request) =>
  Effect.fail(new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request }) }))
)
const sent = (client: HttpClient.HttpClient, isAccepted?: (status: number) => boolean) =>
  send(HttpClientRequest.post(url), isAccepted).pipe(Effect.provideService(HttpClient.HttpClient, client))

const waitOf = (headers: Record<string, string>, status = 429) =>
  Effect.map(
    Effect.flip(sent(answering(status, headers))),
    (failure) => failure._tag === "RateLimited" ? Duration.toSeconds(failure.retryAfter) : failure._tag
  )

describe("send", () => {
  it.effect("returns a response with an accepted status, by default 2xx", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* sent(answering(204))).status, 204)
      assert.strictEqual((yield* sent(answering(404), (status) => status === 404)).status, 404)
    }))

  it.effect("fails as Transient after other statuses, redirects and missing responses", () =>
    Effect.gen(function*() {
      for (const status of [301, 400, 404, 500, 502, 503]) {
        const failure = yield* Effect.flip(sent(answering(status)))
        assert.deepInclude(failure, { _tag: "Transient", message: `someone.example answered ${status}` })
      }
      assert.propertyVal(yield* Effect.flip(sent(silent)), "_tag", "Transient")
    }))

  it.effect("fails as Permanent after status 410", () =>
    Effect.gen(function*() {
      assert.propertyVal(yield* Effect.flip(sent(answering(410))), "_tag", "Permanent")
    }))

  it.effect("waits as long as Retry-After says, at most a day, and a minute without it (R1)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-03-01T12:00:00Z"))
      assert.strictEqual(yield* waitOf({ "retry-after": "7" }), 7)
      assert.strictEqual(yield* waitOf({ "retry-after": "Sun, 01 Mar 2026 12:01:30 GMT" }), 90)
      assert.strictEqual(yield* waitOf({ "retry-after": "999999999" }), 86_400)
      assert.strictEqual(yield* waitOf({ "retry-after": "soon" }), 60)
      assert.strictEqual(yield* waitOf({}), 60)
      assert.strictEqual(yield* waitOf({ "retry-after": "5" }, 503), 5)
      assert.strictEqual(yield* waitOf({}, 503), "Transient")
    }))

  it.effect("compares the date of Retry-After with the clock of the server, not with ours (W4)", () =>
    Effect.gen(function*() {
      const headers = { date: "Sun, 01 Mar 2026 12:00:00 GMT", "retry-after": "Sun, 01 Mar 2026 12:01:30 GMT" }
      for (const ours of ["2026-03-01T11:00:00Z", "2026-03-01T13:00:00Z"]) {
        yield* TestClock.setTime(Date.parse(ours))
        assert.strictEqual(yield* waitOf(headers, 503), 90)
      }
      assert.strictEqual(yield* waitOf({ ...headers, date: "today" }, 503), "Transient")
    }))

  it.effect("treats a Retry-After that names no wait as absent, so that a server that is down is not asked in a loop (R1)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-03-01T12:00:00Z"))
      for (const none of ["0", "-5", "Sun, 01 Mar 2026 12:00:00 GMT", "Sun, 01 Mar 2026 11:00:00 GMT", ""]) {
        assert.strictEqual(yield* waitOf({ "retry-after": none }), 60, none)
        assert.strictEqual(yield* waitOf({ "retry-after": none }, 503), "Transient", none)
      }
    }))

  it.effect("names only the host of the URL in a failure (I11)", () =>
    Effect.gen(function*() {
      for (const client of [silent, answering(500), answering(410)]) {
        assert.notInclude(JSON.stringify(yield* Effect.flip(sent(client))), "secret")
      }
    }))
})
