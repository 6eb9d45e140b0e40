import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { cookieFor, Sessions } from "./Sessions.ts"

const caller = { scope: "operate", means: "session" } as const

describe("a session", () => {
  it.effect("ends after half an hour without a request, and a page that reloads itself is not a request", () =>
    Effect.gen(function*() {
      const { find, start } = yield* Sessions
      const secret = yield* start("operate")
      yield* TestClock.adjust("29 minutes")
      assert.deepStrictEqual(yield* find(secret, true), caller)
      yield* TestClock.adjust("29 minutes")
      assert.deepStrictEqual(yield* find(secret, false), caller)
      yield* TestClock.adjust("1 minute")
      assert.isNull(yield* find(secret, true))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("ends after twelve hours although it is used", () =>
    Effect.gen(function*() {
      const { find, start } = yield* Sessions
      const secret = yield* start("read")
      for (let minutes = 0; minutes < 12 * 60; minutes += 20) {
        assert.deepStrictEqual(yield* find(secret, true), { scope: "read", means: "session" })
        yield* TestClock.adjust("20 minutes")
      }
      assert.isNull(yield* find(secret, true))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("ends when the user signs out, and no other secret finds it", () =>
    Effect.gen(function*() {
      const { end, find, start } = yield* Sessions
      const [one, two] = [yield* start("operate"), yield* start("operate")]
      assert.notStrictEqual(one, two)
      assert.lengthOf(Buffer.from(one, "base64url"), 32)
      for (const wrong of [undefined, "", "x", one.slice(1), `${one} `]) assert.isNull(yield* find(wrong, true))
      yield* end(one)
      assert.isNull(yield* find(one, true))
      assert.deepStrictEqual(yield* find(two, true), caller)
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("of the user who was idle longest ends if there are more than a hundred", () =>
    Effect.gen(function*() {
      const { find, start } = yield* Sessions
      const secrets = yield* Effect.forEach(Array.from({ length: 100 }), () => start("operate"))
      yield* find(secrets[0], true)
      yield* start("operate")
      assert.deepStrictEqual(yield* find(secrets[0], false), caller)
      assert.isNull(yield* find(secrets[1], false))
      assert.deepStrictEqual(yield* find(secrets[2], false), caller)
    }).pipe(Effect.provide(Sessions.layer)))

  it("has a cookie that scripts cannot read and other sites do not send, over TLS only for TLS", () => {
    const options = { httpOnly: true, path: "/", sameSite: "strict" }
    assert.deepStrictEqual(cookieFor({ origin: "http://localhost:8477", isSecure: false }), {
      name: "rollcall_8477",
      options: { ...options, secure: false }
    } as never)
    assert.deepStrictEqual(cookieFor({ origin: "https://rollcall.example", isSecure: true }), {
      name: "__Host-rollcall",
      options: { ...options, secure: true }
    } as never)
  })
})
