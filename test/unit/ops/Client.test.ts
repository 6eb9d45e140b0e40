import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import { TestClock } from "effect/testing"
import * as ApiClient from "../../../src/cli/ApiClient.ts"

/** It takes connections, as a frozen process does, and says nothing. */
const frozen = HttpClient.make(() => Effect.never)

describe("Client", () => {
  it.effect("a process that is frozen is asked for half a minute, then somebody is told", () =>
    Effect.gen(function*() {
      const client = yield* ApiClient.make({ url: "http://127.0.0.1:8477", token: null })
      const asked = yield* Effect.forkChild(Effect.flip(client.streams))
      yield* TestClock.adjust("29 seconds")
      assert.isUndefined(asked.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const { message } = yield* Fiber.join(asked)
      assert.strictEqual(message, "what listens at http://127.0.0.1:8477 does not answer")
    }).pipe(Effect.provideService(HttpClient.HttpClient, frozen)))
})
