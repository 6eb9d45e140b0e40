import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Config from "./Config.ts"
import { loadEnvironment } from "./RawConfig.ts"

const newKey = () => randomBytes(32).toString("base64")

/** The settings with this text in the file of keys. */
const withKeys = Effect.fnUntraced(function*(text: string) {
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-keys-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true }))
  )
  const file = join(directory, "keys")
  writeFileSync(file, text)
  const variables = {
    ROLLCALL_API_URL: "https://api.example.com/v1",
    ROLLCALL_API_KEY: "k",
    ROLLCALL_ENCRYPTION_KEY_FILE: file
  }
  const environment = yield* Effect.provideService(
    loadEnvironment,
    ConfigProvider.ConfigProvider,
    ConfigProvider.fromEnvRecord(variables)
  )
  return Config.check({ ...environment, file: { name: "rollcall.config.ts", value: undefined }, faults: [] })
}, Effect.scoped)

describe("encryptionKey", () => {
  it.effect("is a file of keys, the newest first; the settings do not reveal them when they are printed (I11)", () =>
    Effect.gen(function*() {
      const [first, second] = [newKey(), newKey()]
      const settings = Result.getOrThrow(yield* withKeys(`${first}\n\n ${second}\n`))
      assert.strictEqual(settings.encryptionKeys.length, 2)
      const [one] = Result.getOrThrow(yield* withKeys(first)).encryptionKeys
      assert.strictEqual(settings.encryptionKeys[0]?.id, one?.id)
      assert.notInclude(JSON.stringify(settings.encryptionKeys), first)
    }))

  it.effect("is a fault that names the variable, the number of the key and the command, and quotes no key (I11)", () =>
    Effect.gen(function*() {
      const key = newKey()
      for (
        const [text, message] of [
          ["  \n", /empty/],
          [",", /no key/],
          ["not base64", /number 1 of 2/],
          [`${key}\n${key.slice(0, 20)}`, /number 2 of 2/],
          [`${key}\n${key}`, /twice/]
        ] as const
      ) {
        const checked = yield* withKeys(text)
        assert(Result.isFailure(checked))
        const [fault] = checked.failure.faults
        assert.match(fault?.where ?? "", /ROLLCALL_ENCRYPTION_KEY/)
        assert.match(fault?.message ?? "", message)
        assert.notInclude(JSON.stringify(checked.failure.faults), key.slice(0, 20))
      }
    }))
})
