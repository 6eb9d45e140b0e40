/** A secret in the wrong variable or in the configuration file does not appear in any output. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { inDirectory, runCommand } from "./Program.ts"

const key = "sk_live_51H8xYzKq2Lm9"
const misplaced = {
  ROLLCALL_API_URL: `https://me:${key}@api.example.com/v1`,
  ROLLCALL_API_KEY_FILE: key,
  ROLLCALL_INTEGRATIONS: key,
  ROLLCALL_STORE: `postgres://u:${key}@db.example.com/feed?sslmode=${key}`,
  ROLLCALL_INTERVAL: key,
  ROLLCALL_HTTP_HOST: `${key}.example.com`,
  ROLLCALL_HTTP_PORT: key,
  KAFKA_BROKERS: `${key},broker:9092`
}

const files = {
  "an unquoted key": `export default { accounts: { eu: { url: "https://a/v1", key: ${key} } } }`,
  "an error that quotes it": `throw new Error("no account for ${key}")`,
  "a syntax error": `export default { key: ${key} ${key} }`,
  "the wrong properties": `import { defineConfig, secret } from "rollcall"
    export default defineConfig({ ${key}: 1, accounts: { eu: { url: "${key}", key: secret("${key}") } } })`
}

describe("a secret in the wrong place", () => {
  it("is not printed by start, doctor, status and schema if it is in a variable", () =>
    inDirectory(async (directory) => {
      for (const args of [["start"], ["start", "--once"], ["doctor"], ["doctor", "--json"], ["status"], ["schema"]]) {
        const { code, stderr, stdout } = await runCommand(args, misplaced, directory)
        assert.notInclude(stdout + stderr, key, args.join(" "))
        if (args[0] === "schema") continue
        assert.strictEqual(code, 1)
        assert.include(stdout + stderr, "ROLLCALL_HTTP_PORT")
      }
    }))

  it("is not printed by commands that look for the process at it", () =>
    inDirectory(async (directory) => {
      const environment = {
        ROLLCALL_HTTP_HOST: key,
        ROLLCALL_HTTP_TOKEN: "t".repeat(40),
        ROLLCALL_ALLOW_PLAINTEXT: "http"
      }
      for (const args of [["status"], ["tail"], ["holds", "list"]]) {
        const { code, stderr, stdout } = await runCommand(args, environment, directory)
        assert.notInclude((stdout + stderr).toLowerCase(), key.toLowerCase(), args.join(" "))
        assert.include(stderr, `(${key.length} characters)`)
        assert.strictEqual(code, 1)
      }
      const { stderr, stdout } = await runCommand(["start"], {
        ...environment,
        ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
        ROLLCALL_API_KEY: "k"
      }, directory)
      assert.notInclude(stdout + stderr, key)
      assert.include(stderr, "cannot be opened")
    }))

  for (const [what, text] of Object.entries(files)) {
    it(`is not printed if it is in the configuration file, as ${what}`, () =>
      inDirectory(async (directory) => {
        writeFileSync(join(directory, "rollcall.config.ts"), text)
        for (const args of [["start"], ["doctor", "--json"]]) {
          const { code, stderr, stdout } = await runCommand(args, {}, directory)
          assert.strictEqual(code, 1)
          assert.include(stdout + stderr, "rollcall.config.ts")
          assert.notInclude(stdout + stderr, key)
        }
      }))
  }
})
