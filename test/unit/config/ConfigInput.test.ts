import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Redacted } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { loadEnvironment, type SecretValue } from "../../../src/config/RawConfig.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const apiKey = (variables: Record<string, string>) =>
  loadEnvironment.pipe(
    Effect.map(({ secrets }) => secrets.get("ROLLCALL_API_KEY")),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables))
  )

const found = (secret: SecretValue | string | undefined): SecretValue =>
  typeof secret === "object" ? secret : assert.fail(`no secret: ${secret}`)

describe("a secret", () => {
  it.effect("is the variable's value, or that of the file which its _FILE names, without the line's end", () =>
    Effect.gen(function*() {
      const file = join(yield* directory, "key")
      writeFileSync(file, "from-file\n")
      const plain = found(yield* apiKey({ ROLLCALL_API_KEY: "plain" }))
      assert.strictEqual(Redacted.value(yield* plain.current), "plain")
      const mounted = found(yield* apiKey({ ROLLCALL_API_KEY_FILE: file }))
      assert.strictEqual(Redacted.value(mounted.initial), "from-file")
    }))

  it.effect("is as its file is now, and while the file is being exchanged as it was", () =>
    Effect.gen(function*() {
      const file = join(yield* directory, "key")
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

  it.effect("in two places, in none, or in a file that cannot be read is said in words", () =>
    Effect.gen(function*() {
      const missing = join(yield* directory, "nothing")
      assert.isUndefined(yield* apiKey({ ROLLCALL_API_KEY: "" }))
      assert.strictEqual(
        yield* apiKey({ ROLLCALL_API_KEY: "s3cret", ROLLCALL_API_KEY_FILE: missing }),
        "ROLLCALL_API_KEY and ROLLCALL_API_KEY_FILE are both set"
      )
      assert.match(
        String(yield* apiKey({ ROLLCALL_API_KEY_FILE: missing })),
        /nothing, which is empty or cannot be read/
      )
    }))
})
