/** Responses that something between Rollcall and the API made: a gateway, a firewall, a proxy or a cache. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { brotliCompressSync, deflateSync, zstdCompressSync } from "node:zlib"
import { stateOf } from "../../test/conformance/StoreSamples.ts"
import { read, reasonOf, refusal, type Reply, success, withReplies } from "../../test/support/source/Replies.ts"
import { afterFailure } from "../capture/StreamLifecycle.ts"
import { isRefused, SourceError } from "./Source.ts"

const html = { "content-type": "text/html" }
const page = (status: number, headers: Record<string, string> = {}, body: unknown = "<html>no</html>"): Reply => ({
  status,
  headers: { ...html, ...headers },
  body
})

const reasonAfter = (...replies: ReadonlyArray<Reply>) => {
  const { layer, sent } = withReplies(...replies)
  return Effect.map(read(), (exit) => ({ reason: reasonOf(exit), sent })).pipe(Effect.provide(layer))
}

describe("an error response without the API's envelope", () => {
  it.effect.each([400, 401, 402, 403, 405, 407, 409, 410, 413, 451, 500, 501, 502, 503, 511, 304])(
    "is not the API's word: %i is repeated, and says nothing about the key, the permission or the model",
    (status) =>
      Effect.gen(function*() {
        const { layer, sent } = withReplies(page(status, {}, status === 304 ? null : undefined), success)
        yield* yield* read().pipe(Effect.provide(layer))
        assert.strictEqual(sent.length, 2)
        const { reason } = yield* reasonAfter(page(status, {}, status === 304 ? null : undefined))
        assert.deepInclude(reason, { _tag: "Transient", code: null, retryable: true, intercepted: true, status })
      })
  )

  it.effect.each([
    { body: { message: "Forbidden" }, what: "another format" },
    { body: { error: { code: "INTEGRATION.PERMISSION_MISSING", message: "no" } }, what: "an error without a status" },
    { body: '{"status":"error","error":{"code":"INTEGRATION.PERM', what: "half an envelope" }
  ])("includes JSON with $what", ({ body }) =>
    Effect.gen(function*() {
      const { reason } = yield* reasonAfter(page(403, {}, body))
      assert.strictEqual(reason._tag, "Transient")
    }))

  it.effect("is repeated twice if it refuses every request, and five times if the API is only out of reach", () =>
    Effect.gen(function*() {
      for (
        const [status, requests] of [[401, 3], [403, 3], [405, 3], [407, 3], [501, 3], [400, 6], [502, 6]] as const
      ) {
        assert.lengthOf((yield* reasonAfter(page(status))).sent, requests, String(status))
      }
    }))

  it.effect("pauses the account after 429, and honors the wait of other statuses", () =>
    Effect.gen(function*() {
      const { reason } = yield* reasonAfter(page(429))
      assert.strictEqual(reason._tag, "RateLimited")
      const { layer, sent } = withReplies(page(403, { "retry-after": "20" }), success)
      yield* read().pipe(Effect.provide(layer))
      assert.isAtLeast((sent[1]?.at ?? 0) - (sent[0]?.at ?? 0), 20_000)
    }))

  it.effect("names the servers on the way, without versions, hosts that change and other text", () =>
    Effect.gen(function*() {
      const { reason } = yield* reasonAfter(page(405, {
        server: "nginx/1.27.1 (Ubuntu) mod_x/2 a b c d",
        via: "1.1 d9f1.cloudfront.net (CloudFront), 1.1 varnish, 2.0 10.0.0.3:3128 (squid/6.1)"
      }))
      assert.strictEqual(
        reason.message,
        "status 405 with an HTML page (text/html; Server: nginx, mod_x, a; Via: CloudFront, varnish, squid): not the API's error " +
          "format, so something between Rollcall and the API answered"
      )
    }))

  it.effect("repeats no more than three names of 40 characters of a hostile header", () =>
    Effect.gen(function*() {
      const long = "x".repeat(5000)
      const { reason } = yield* reasonAfter(page(403, { server: `${long} "<b>" ${long} 4711`, via: `1.1 ${long}` }))
      assert.isBelow(reason.message.length, 400)
      assert.notMatch(reason.message, /[<"]|4711/)
    }))

  it.effect("with 401 or 403 has two readings: a gateway, or the key", () =>
    Effect.gen(function*() {
      for (const status of [401, 403]) {
        const { reason } = yield* reasonAfter(page(status))
        assert.match(reason.hint, /two readings.*gateway.*the API refuses the account's key/s)
      }
      assert.notMatch((yield* reasonAfter(page(405))).reason.hint, /key/)
      assert.notMatch((yield* reasonAfter(refusal(500, null))).reason.hint, /gateway/)
    }))

  it.effect("is described: a redirect, and the answer of a cache", () =>
    Effect.gen(function*() {
      const redirect = yield* reasonAfter(page(302, { location: "/login", server: "awselb/2.0" }))
      assert.include(redirect.reason.message, "Server: awselb): the URL redirects to another address")
      const cached = yield* reasonAfter({ status: 304, headers: { via: "1.1 varnish" } })
      assert.include(cached.reason.message, "Via: varnish): a cache between Rollcall and the API answered")
      assert.notInclude(cached.reason.message, "redirect")
    }))

  it.effect("may concern this request alone if its status is about the request: a sweep then starts over", () =>
    Effect.gen(function*() {
      for (
        const [status, expected] of [
          [400, true],
          [414, true],
          [431, true],
          [401, false],
          [403, false],
          [407, false],
          [451, false],
          [503, false]
        ] as const
      ) {
        const { reason } = yield* reasonAfter(page(status))
        assert.strictEqual(isRefused(new SourceError({ reason })), expected, String(status))
      }
    }))
})

it.effect("the answer that opened the circuit says nothing about the requests that the circuit rejects", () => {
  const { layer, sent } = withReplies(page(400))
  return Effect.gen(function*() {
    const isRefusal = Effect.map(read(), (exit) => isRefused(new SourceError({ reason: reasonOf(exit) })))
    assert.isTrue(yield* isRefusal)
    // the circuit opens after four of its attempts
    assert.isTrue(yield* isRefusal)
    assert.isFalse(yield* isRefusal)
    assert.lengthOf(sent, 10)
    yield* TestClock.adjust("1 minute")
    assert.isTrue(yield* isRefusal)
    assert.lengthOf(sent, 11)
  }).pipe(Effect.provide(layer))
})

it.effect("a stream whose request an open circuit rejects has the failure that opened it as its cause, like the other streams", () => {
  const { layer } = withReplies(page(502))
  return Effect.gen(function*() {
    const state = stateOf({ integration: "greenhouse:acme", model: "ats.tag" })
    const failing = Effect.map(
      read(),
      (exit) => afterFailure(state, new SourceError({ reason: reasonOf(exit) }), 0).failing
    )
    const [direct] = [yield* failing, yield* failing]
    const rejected = yield* failing
    assert.notProperty(direct, "openedBy")
    assert.match(rejected?.message ?? "", /^circuit open after 10 failures/)
    assert.strictEqual(rejected?.openedBy, direct?.message)
  }).pipe(Effect.provide(layer))
})

it.effect("a proxy that refuses the tunnel to the API refuses every request, like one that answers in the API's place", () =>
  Effect.gen(function*() {
    const tunnel = (statusCode: number) => Object.assign(new Error("no"), { code: "ERR_PROXY_TUNNEL", statusCode })
    const refused = yield* reasonAfter({ failure: tunnel(407) })
    assert.deepInclude(refused.reason, { _tag: "Transient", notSent: true, intercepted: true, status: 407 })
    assert.lengthOf(refused.sent, 3)
    const down = yield* reasonAfter({ failure: tunnel(503) })
    assert.deepInclude(down.reason, { _tag: "Transient", notSent: true })
    assert.notProperty(down.reason, "intercepted")
  }))

describe("a challenge of a firewall", () => {
  it.effect.each([
    { status: 405, headers: { "x-amzn-waf-action": "captcha" } },
    { status: 202, headers: { "x-amzn-waf-action": "challenge" } },
    { status: 403, headers: { "cf-mitigated": "challenge" } },
    { status: 407, headers: {} },
    { status: 511, headers: {} }
  ])(
    "proves that the request did not reach the API: $status $headers",
    ({ headers, status }) =>
      Effect.gen(function*() {
        const { reason } = yield* reasonAfter(page(status, headers, ""))
        assert.deepInclude(reason, { _tag: "Transient", notSent: true })
      })
  )

  it.effect("is not recognized in a response of the API", () =>
    Effect.gen(function*() {
      const headers = { "x-amzn-waf-action": "challenge" }
      const { layer } = withReplies({ ...success, headers })
      yield* yield* read().pipe(Effect.provide(layer))
      const { reason } = yield* reasonAfter(refusal(403, null, headers))
      assert.strictEqual(reason._tag, "Forbidden")
    }))
})

describe("a body in an encoding that Rollcall did not request", () => {
  const text = JSON.stringify(success.body)
  it.effect.each([
    { encoding: "br", body: brotliCompressSync(text), says: "the encoding br" },
    { encoding: "deflate", body: deflateSync(text), says: "the encoding deflate" },
    { encoding: "gzip, zstd", body: zstdCompressSync(text), says: "the encoding zstd" },
    { encoding: "Ada", body: zstdCompressSync(text), says: "the encoding of an unknown name" }
  ])("is named: $encoding", ({ body, encoding, says }) =>
    Effect.gen(function*() {
      for (const status of [200, 502]) {
        const { reason } = yield* reasonAfter({ status, headers: { "content-encoding": encoding }, body })
        assert.include(reason.message, `${says}, which Rollcall did not request`)
        assert.notInclude(reason.message, "Ada")
      }
    }))

  it.effect("is read if the client decompressed it and left the header", () =>
    Effect.gen(function*() {
      const { layer } = withReplies({ ...success, headers: { "content-encoding": "br" } })
      yield* yield* read().pipe(Effect.provide(layer))
    }))
})

it.effect("data that is not UTF-8 is named", () =>
  Effect.gen(function*() {
    for (
      const body of [Buffer.from([0xff, 0x7d]), Buffer.from('{"status":"success","data":"M\u00fcller"}', "latin1")]
    ) {
      const { reason } = yield* reasonAfter({ body })
      assert.include(reason.message, "data that is not UTF-8")
    }
  }))
