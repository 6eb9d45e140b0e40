import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { type IncomingMessage, request } from "node:http"
import { join } from "node:path"
import * as Config from "../../../src/config/Config.ts"
import { loadEnvironment } from "../../../src/config/RawConfig.ts"
import * as Server from "../../../src/http/Server.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"
import * as Running from "./Running.ts"

const { send } = Running
const localhost = { host: "localhost:8477" }
const form = { ...localhost, "content-type": "application/x-www-form-urlencoded" }
const bearer = (token: string) => ({ ...localhost, authorization: `Bearer ${token}` })

const settingsOf = (variables: Record<string, string>) =>
  Effect.map(
    Effect.provideService(
      loadEnvironment,
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromEnvRecord({
        ROLLCALL_API_URL: "https://api.example.com/v1",
        ROLLCALL_API_KEY: "k",
        ...variables
      })
    ),
    (raw) => Result.getOrThrow(Config.check(raw)).http
  )

/** Closes when the server ends the stream. */
const follow = Effect.fnUntraced(function*(headers: Record<string, string>) {
  const { url } = yield* Server.Server
  const stream = yield* Effect.promise(async () => {
    const sent = request(`${url}/v1/events`, { headers: { ...headers, accept: "text/event-stream" }, agent: false })
    const [answer] = await once(sent.end(), "response")
    return answer as IncomingMessage
  })
  assert.strictEqual(stream.statusCode, 200)
  return { stream, closed: once(stream.resume(), "close") }
})

describe("the token in ROLLCALL_HTTP_TOKEN_FILE", () => {
  it.effect("is replaced without a restart: the old token, its sessions and its streams end", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "token")
      writeFileSync(file, "old-token\n")
      const { token } = yield* settingsOf({ ROLLCALL_HTTP_TOKEN_FILE: file })
      const messages = yield* Queue.unbounded<string>()
      const logger = Logger.make(({ message }) => {
        if (String(message).startsWith("token")) Queue.offerUnsafe(messages, String(message))
      })
      const write = Effect.fnUntraced(function*(content: string, expected: string) {
        writeFileSync(file, content)
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(yield* Queue.take(messages), expected)
      })
      yield* Effect.gen(function*() {
        const statusOf = (headers: Record<string, string>) =>
          Effect.map(send("GET", "/v1/streams", headers), ({ status }) => status)
        const { headers } = yield* send("POST", "/login", form, "token=old-token")
        const session = { ...localhost, cookie: headers["set-cookie"]?.[0]?.split(";", 1)[0] ?? "" }
        const streams = [yield* follow(session), yield* follow(bearer("old-token"))]
        yield* write("", "token not replaced")
        assert.deepStrictEqual([yield* statusOf(bearer("old-token")), yield* statusOf(session)], [200, 200])
        yield* write("new-token\nold-token\n", "token replaced")
        for (const proof of [bearer("old-token"), bearer("new-token"), session]) {
          assert.strictEqual(yield* statusOf(proof), 200)
        }
        yield* TestClock.adjust("5 seconds")
        assert.isFalse(streams.some(({ stream }) => stream.destroyed))
        yield* write("new-token\n", "token replaced")
        assert.deepStrictEqual([yield* statusOf(bearer("new-token")), yield* statusOf(session)], [200, 401])
        yield* TestClock.adjust("5 seconds")
        yield* Effect.promise(() => Promise.all(streams.map(({ closed }) => closed)))
      }).pipe(Running.using({ token }), Effect.provide(Logger.layer([logger])))
    }).pipe(Effect.scoped))
})
