/** A secret in the wrong place of the configuration is not quoted in any message. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { complete } from "../../test/support/config/Checked.ts"
import { runs } from "../../test/support/Runs.ts"
import * as Config from "./Config.ts"
import { secret } from "./ConfigFile.ts"
import type { RawConfig } from "./RawConfig.ts"
import { variableNames } from "./Variables.ts"

const alphabet = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"]
const Key = Schema.Array(Schema.Literals(alphabet)).check(Schema.isMinLength(20), Schema.isMaxLength(60))
/** A secret in the forms in which people have one. */
const forms = Schema.Literals(["sk_live_", "Bearer ", "postgres://u:", "https://u:", "-----BEGIN ", "a=b&k=", ""])

const assertUnquoted = (input: RawConfig, key: string) => {
  const checked = Config.check(input)
  if (Result.isSuccess(checked)) return
  assert.notInclude(JSON.stringify(checked.failure.faults).toLowerCase(), key.toLowerCase())
  assert.notInclude(checked.failure.message.toLowerCase(), key.toLowerCase())
}

const written = (form: string, key: string) =>
  form.startsWith("https") || form.startsWith("post") ? `${form}${key}@h/d` : form + key

/** The property of a configuration file that holds a text, at any depth. */
const places: ReadonlyArray<(text: string) => unknown> = [
  (text) => text,
  (text) => [text],
  (text) => ({ [text]: 1 }),
  (text) => ({ accounts: { [text]: {} } }),
  (text) => ({ accounts: { eu: { url: text, key: text, cursorParameter: text } } }),
  (text) => ({ accounts: { eu: { url: "https://a/v1", key: secret(text) } } }),
  (text) => ({ integrations: [{ id: text, account: text, models: [text], interval: text, backfill: text }] }),
  (text) => ({ integrations: [{ id: "a:1", models: text, [text]: text }], models: { [text]: {} } }),
  (text) => ({ models: { "ats.tag": { remoteData: text, redact: { [text]: text, "/a": text } } } }),
  (text) => ({ store: text, retention: text, redactKey: text, confirmInterval: text, allowPlaintext: [text] }),
  (text) => ({ http: { host: text, port: text, token: text, hosts: [text] } }),
  (text) => ({ kafka: { brokers: [text], ssl: text, topic: text, state: text, transactions: text } }),
  (text) => ({ kafka: { brokers: [text], sasl: { mechanism: text, username: text, password: text, tokenUrl: text } } }),
  (text) => ({ kafka: { brokers: [`${text}:9092`] }, log: { level: text, format: text }, guard: { count: text } }),
  (text) => ({ plugins: [text, { name: text }], guard: { window: text, share: text } })
]

describe("a secret", () => {
  it.effect.prop(
    "in any variable, or as the path of a secret's file, is not quoted",
    [Key, forms],
    ([parts, form]) =>
      Effect.gen(function*() {
        const key = parts.join("")
        const text = written(form, key)
        for (const name of variableNames) {
          assertUnquoted(yield* complete({ [name]: text, ROLLCALL_HTTP_READ_TOKEN: "r" }), key)
          assertUnquoted(yield* complete({ [name]: `${text},${text}` }), key)
          assertUnquoted(yield* complete({ [name]: "", [`${name}_FILE`]: text }), key)
          assertUnquoted(yield* complete({ [name]: "", [`${name}_FILE`]: `/${text}` }), key)
        }
      }),
    { arbitrary: { runs: runs(3) } }
  )

  it.effect.prop(
    "in any property of the configuration file is not quoted",
    [Key, forms],
    ([parts, form]) =>
      Effect.gen(function*() {
        const key = parts.join("")
        for (const place of places) assertUnquoted(yield* complete({}, place(written(form, key))), key)
      }),
    { arbitrary: { runs: 10 } }
  )
})
