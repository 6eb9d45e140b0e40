import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { refused, SinkError } from "../Sink.ts"
import * as KafkaClient from "./KafkaClient.ts"
import * as OAuthToken from "./OAuthToken.ts"

/** A token endpoint whose responses the test writes. */
const endpoint = (respond: (response: ServerResponse) => void) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer((_, response) => respond(response))
        await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
        return server
      }),
      (server) => Effect.sync(() => server.close().closeAllConnections())
    ),
    (server) => {
      const { port } = server.address() as AddressInfo
      const clientSecret = Redacted.make("s3cret")
      return { url: `http://127.0.0.1:${port}/token`, clientId: "c", clientSecret, scope: null }
    }
  )

const loginOf = (endpoint: OAuthToken.TokenEndpoint): OAuthToken.OAuthLogin => ({
  mechanism: "oauthbearer",
  token: null,
  endpoint
})

const accept = ({ login }: OAuthToken.TokenSource) => login(() => Effect.void)
/** The error of a login that the brokers refuse. */
const refuse = ({ login }: OAuthToken.TokenSource) =>
  Effect.map(Effect.flip(login(() => refused("refused by the test", "hint"))), (error) => {
    assert.instanceOf(error, SinkError)
    return error
  })

describe("a token from an endpoint", () => {
  it.effect("is awaited for 10 seconds if the endpoint is silent", () =>
    Effect.gen(function*() {
      const asked = yield* Deferred.make<void>()
      const silent = yield* endpoint(() => Deferred.doneUnsafe(asked, Effect.void))
      const client = yield* KafkaClient.make({ brokers: ["127.0.0.1:1"], ssl: false, sasl: loginOf(silent) })
      const fiber = yield* Effect.forkChild(Effect.flip(client.admin("listing topics", (admin) => admin.listTopics())))
      yield* Deferred.await(asked)
      yield* TestClock.adjust("10 seconds")
      assert.include((yield* Fiber.join(fiber)).message, "no response within 10 seconds")
    }))

  it.effect("is no longer awaited by a caller that is interrupted", () =>
    Effect.gen(function*() {
      const asked = yield* Deferred.make<void>()
      const silent = yield* endpoint(() => Deferred.doneUnsafe(asked, Effect.void))
      const client = yield* KafkaClient.make({ brokers: ["127.0.0.1:1"], ssl: false, sasl: loginOf(silent) })
      const fiber = yield* Effect.forkChild(client.admin("listing topics", (admin) => admin.listTopics()))
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("is used until it expires while the endpoint issues no other", () =>
    Effect.gen(function*() {
      let issues = true
      const tokens = OAuthToken.make(loginOf(
        yield* endpoint((response) =>
          issues
            ? response.end(JSON.stringify({ access_token: "first", expires_in: 400 }))
            : response.writeHead(503).end("")
        )
      ))
      const token = Effect.map(tokens.current, Redacted.value)
      assert.strictEqual(yield* token, "first")
      issues = false
      yield* TestClock.adjust("390 seconds")
      assert.strictEqual(yield* token, "first")
      assert.include((yield* refuse(tokens)).message, "refused by the test")
      assert.include((yield* Effect.flip(token)).message, "did not issue a token (status 503)")
      issues = true
      yield* token
      issues = false
      yield* TestClock.adjust("400 seconds")
      assert.include((yield* Effect.flip(token)).message, "did not issue a token (status 503)")
    }))

  it.effect("that the brokers accepted for a minute and now refuse is replaced soon, and the next one is on trial", () =>
    Effect.gen(function*() {
      let issued = 0
      const tokens = OAuthToken.make(loginOf(
        yield* endpoint((response) =>
          response.end(JSON.stringify({ access_token: `token-${++issued}`, expires_in: 4000 }))
        )
      ))
      yield* accept(tokens)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual((yield* refuse(tokens)).reason._tag, "Refused")
      yield* accept(tokens)
      yield* TestClock.adjust("1 minute")
      yield* accept(tokens)
      assert.strictEqual(issued, 2)
      const { message, reason } = yield* refuse(tokens)
      assert.strictEqual(reason._tag, "Unreachable")
      assert.include(message, "no longer accept the token")
      assert.strictEqual((yield* refuse(tokens)).reason._tag, "Refused")
      assert.strictEqual(issued, 3)
    }))
})

describe("a token from a file", () => {
  it.effect("that the brokers accepted for a minute and now refuse is read again for the next login", () =>
    Effect.gen(function*() {
      let text = "first"
      const token = Effect.sync(() => Redacted.make(text))
      const tokens = OAuthToken.make({ mechanism: "oauthbearer", token, endpoint: null })
      yield* accept(tokens)
      yield* TestClock.adjust("1 minute")
      const { reason } = yield* refuse(tokens)
      assert.strictEqual(reason._tag, "Unreachable")
      assert.include(reason.hint, "The next login reads the token again")
      text = "second"
      yield* tokens.login((used) => Effect.sync(() => assert.strictEqual(Redacted.value(used), "second")))
    }))
})
