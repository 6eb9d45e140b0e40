import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import { TestClock } from "effect/testing"
import * as ApiClient from "./ApiClient.ts"

/** A server that accepts connections and does not answer, like a suspended process. */
const frozen = HttpClient.make(() => Effect.never)

describe("Client", () => {
  it.effect("a suspended process is an error after half a minute", () =>
    Effect.gen(function*() {
      const client = yield* ApiClient.make({ url: "http://127.0.0.1:8477", token: null })
      const asked = yield* Effect.forkChild(Effect.flip(client.allStreams))
      yield* TestClock.adjust("29 seconds")
      assert.isUndefined(asked.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const { message } = yield* Fiber.join(asked)
      assert.strictEqual(message, "the process at http://127.0.0.1:8477 accepts connections but does not answer")
    }).pipe(Effect.provideService(HttpClient.HttpClient, frozen)))
})
