import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { loaded } from "../../test/support/config/Checked.ts"
import { temporaryFolder } from "../../test/support/TemporaryFolder.ts"
import type { SecretValue } from "./RawConfig.ts"

const apiKey = (variables: Record<string, string>) =>
  Effect.map(loaded(variables), ({ secrets }) => secrets.get("ROLLCALL_API_KEY"))

const found = (secret: SecretValue | string | undefined): SecretValue =>
  typeof secret === "object" ? secret : assert.fail(`no secret: ${secret}`)

describe("a secret", () => {
  it.effect("is the value of the variable, or of the file that its _FILE names, without the line break", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "key")
      writeFileSync(file, "from-file\n")
      const plain = found(yield* apiKey({ ROLLCALL_API_KEY: "plain" }))
      assert.strictEqual(Redacted.value(yield* plain.current), "plain")
      const mounted = found(yield* apiKey({ ROLLCALL_API_KEY_FILE: file }))
      assert.strictEqual(Redacted.value(mounted.initial), "from-file")
    }))

  it.effect("is the current content of its file, or the previous one while the file is being replaced", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "key")
      writeFileSync(file, "one")
      const { current } = found(yield* apiKey({ ROLLCALL_API_KEY_FILE: file }))
      const now = Effect.map(current, Redacted.value)
      assert.strictEqual(yield* now, "one")
      writeFileSync(file, "two")
      assert.strictEqual(yield* now, "two")
      writeFileSync(file, "")
      assert.strictEqual(yield* now, "two")
      rmSync(file)
      assert.strictEqual(yield* now, "two")
      writeFileSync(file, "three")
      assert.strictEqual(yield* now, "three")
    }))

  it.effect("that is set twice, not set, or in an unreadable file has a reason as text", () =>
    Effect.gen(function*() {
      const missing = join(yield* temporaryFolder, "nothing")
      assert.isUndefined(yield* apiKey({ ROLLCALL_API_KEY: "" }))
      assert.strictEqual(
        yield* apiKey({ ROLLCALL_API_KEY: "s3cret", ROLLCALL_API_KEY_FILE: missing }),
        "ROLLCALL_API_KEY and ROLLCALL_API_KEY_FILE are both set"
      )
      assert.match(
        String(yield* apiKey({ ROLLCALL_API_KEY_FILE: missing })),
        /nothing, and that file is empty or cannot be read/
      )
    }))
})
