import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import type { Scope } from "./Caller.ts"
import { cookieFor, Sessions } from "./Sessions.ts"
import type { Grant } from "./Tokens.ts"

const address = "192.0.2.1"
const grant = (scope: Scope, isValid = () => true): Grant => ({
  caller: { scope, means: scope === "operate" ? "operate token" : "read token" },
  isValid
})

describe("a session", () => {
  it.effect("ends after half an hour without a request, and a page that reloads itself is not a request", () =>
    Effect.gen(function*() {
      const { find, start } = yield* Sessions
      const { secret } = yield* start(grant("operate"), address)
      yield* TestClock.adjust("29 minutes")
      assert.isNotNull(yield* find(secret, true))
      yield* TestClock.adjust("29 minutes")
      assert.isNotNull(yield* find(secret, false))
      yield* TestClock.adjust("1 minute")
      assert.isNull(yield* find(secret, true))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("ends after twelve hours although it is used", () =>
    Effect.gen(function*() {
      const { find, start } = yield* Sessions
      const { secret } = yield* start(grant("read"), address)
      for (let minutes = 0; minutes < 12 * 60; minutes += 20) {
        const caller = yield* find(secret, true)
        assert.deepStrictEqual([caller?.scope, caller?.means], ["read", "session"])
        yield* TestClock.adjust("20 minutes")
      }
      assert.isNull(yield* find(secret, true))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("ends when the user signs out, and no other secret finds it", () =>
    Effect.gen(function*() {
      const { end, find, start } = yield* Sessions
      const { secret: one } = yield* start(grant("operate"), address)
      const { secret: two } = yield* start(grant("operate"), address)
      assert.notStrictEqual(one, two)
      assert.lengthOf(Buffer.from(one, "base64url"), 32)
      for (const wrong of [undefined, "", "x", one.slice(1), `${one} `]) assert.isNull(yield* find(wrong, true))
      yield* end(one)
      assert.isNull(yield* find(one, true))
      assert.isNotNull(yield* find(two, true))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("ends when the token that it began with is replaced", () =>
    Effect.gen(function*() {
      const { find, list, start } = yield* Sessions
      let isValid = true
      const { secret } = yield* start(grant("operate", () => isValid), address)
      const { secret: other } = yield* start(grant("operate"), address)
      isValid = false
      assert.lengthOf(yield* list, 1)
      assert.isNull(yield* find(secret, false))
      assert.isNotNull(yield* find(other, false))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("of the user who was idle longest ends if there are more than a hundred with the same right", () =>
    Effect.gen(function*() {
      const { find, start } = yield* Sessions
      const started = yield* Effect.forEach(Array.from({ length: 100 }), () => start(grant("operate"), address))
      const secrets = started.map(({ secret }) => secret)
      yield* find(secrets[0], true)
      yield* start(grant("operate"), address)
      assert.isNotNull(yield* find(secrets[0], false))
      assert.isNull(yield* find(secrets[1], false))
      assert.isNotNull(yield* find(secrets[2], false))
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("of an operator does not end because of sessions with the read token", () =>
    Effect.gen(function*() {
      const { find, list, start } = yield* Sessions
      const { secret } = yield* start(grant("operate"), address)
      for (let count = 0; count < 101; count++) yield* start(grant("read"), address)
      assert.isNotNull(yield* find(secret, false))
      assert.lengthOf(yield* list, 101)
    }).pipe(Effect.provide(Sessions.layer)))

  it.effect("is listed with its times, by an id that is not its secret", () =>
    Effect.gen(function*() {
      const { endEach, find, list, start } = yield* Sessions
      const { secret } = yield* start(grant("read"), address)
      yield* TestClock.adjust("20 minutes")
      const { secret: other } = yield* start(grant("operate"), "192.0.2.2")
      yield* TestClock.adjust("5 minutes")
      const caller = yield* find(secret, true)
      const [operating, reading, ...none] = yield* list
      assert.isEmpty(none)
      const minutes = (count: number) => count * 60_000
      assert.deepStrictEqual(reading, {
        id: caller?.session ?? "",
        scope: "read",
        address,
        startedAt: 0,
        lastRequestAt: minutes(25),
        expiresAt: minutes(55)
      })
      assert.strictEqual(operating?.address, "192.0.2.2")
      assert.notInclude(JSON.stringify(yield* list), secret)
      assert.isNull(yield* find(reading?.id, true))
      assert.deepStrictEqual(yield* endEach(({ id }) => id === reading?.id), [reading!])
      assert.isNull(yield* find(secret, true))
      assert.isNotNull(yield* find(other, true))
      assert.isEmpty(yield* endEach(({ id }) => id === reading?.id))
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
