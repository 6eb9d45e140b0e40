import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { randomBytes } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { complete } from "../../test/support/config/Checked.ts"
import { temporaryFolder } from "../../test/support/TemporaryFolder.ts"
import * as Config from "./Config.ts"

const newKey = () => randomBytes(32).toString("base64")

/** The configuration with this text in the file of keys. */
const withKeys = Effect.fnUntraced(function*(text: string) {
  const file = join(yield* temporaryFolder, "keys")
  writeFileSync(file, text)
  return Config.check(yield* complete({ ROLLCALL_ENCRYPTION_KEY_FILE: file }))
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
