import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Config from "../../../src/config/Config.ts"
import { loadEnvironment } from "../../../src/config/RawConfig.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"
import { clientOf, json, Loopback, readTags, refusal } from "./Loopback.ts"

const page = JSON.stringify({ status: "success", data: { next: null, results: [] } })
/** A server that accepts one key at a time, a mounted file with the client's key, and a client that reads that file. */
const rotating = Effect.gen(function*() {
  const directory = yield* temporaryFolder
  const state = { accepted: "key-1", received: new Array<string>(), onRejection: () => {} }
  const server = yield* Loopback.serving((incoming, response) => {
    const key = incoming.headers.authorization?.replace("Bearer ", "") ?? ""
    state.received.push(key)
    if (key === state.accepted) return void json(response, page)
    state.onRejection()
    json(response, refusal("PLATFORM.AUTHENTICATION_INVALID"), 401)
  })
  const file = join(directory, "key")
  const mount = (key: string) => writeFileSync(file, `${key}\n`)
  mount("key-1")
  const settings = yield* loadEnvironment.pipe(
    Effect.map((input) => Result.getOrThrow(Config.check(input))),
    Effect.provideService(
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromEnvRecord({ ROLLCALL_API_URL: server.url, ROLLCALL_API_KEY_FILE: file })
    )
  )
  return { state, mount, layer: clientOf(server.url, settings) }
})

describe("a key that is replaced while Rollcall runs", () => {
  it.live("is used from the next request on, without a rejected request", () =>
    Effect.gen(function*() {
      const { layer, mount, state } = yield* rotating
      yield* Effect.gen(function*() {
        yield* readTags()
        mount("key-2")
        state.accepted = "key-2"
        yield* readTags()
      }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(state.received, ["key-1", "key-2"])
    }))

  it.live("is used immediately if the old key was rejected just before the new one was mounted", () =>
    Effect.gen(function*() {
      const { layer, mount, state } = yield* rotating
      state.accepted = "key-2"
      state.onRejection = () => mount("key-2")
      yield* Effect.provide(readTags(), layer)
      assert.deepStrictEqual(state.received, ["key-1", "key-2"])
    }))

  it.live("a rejected key that was not replaced is not sent again", () =>
    Effect.gen(function*() {
      const { layer, state } = yield* rotating
      state.accepted = "another"
      const { reason } = yield* Effect.flip(Effect.provide(readTags(), layer))
      assert.strictEqual(reason._tag, "Unauthorized")
      assert.deepStrictEqual(state.received, ["key-1"])
    }))
})
