import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { display, isHarmless, withoutSecrets, withoutValue } from "./Quote.ts"

/** Texts of this length over these characters. */
const over = (characters: string, least: number, most = least + 24) =>
  Schema.Array(Schema.Literals([...characters])).check(Schema.isMinLength(least), Schema.isMaxLength(most))

const lower = "abcdefghijklmnopqrstuvwxyz"
const digits = "0123456789"
const alphabets = {
  letters: lower,
  hexadecimal: `${digits}abcdef`,
  base32: `${lower.toUpperCase()}234567`,
  alphanumeric: `${lower}${lower.toUpperCase()}${digits}`
}

describe("a value that may be a secret", () => {
  for (const [name, characters] of Object.entries(alphabets)) {
    it.prop(`is one with 16 ${name} characters in a row, whatever is around them`, [
      over(characters, 16),
      Schema.Literals(["", "sk_live_", "Bearer ", "https://host/", "broker:"])
    ], ([key, before]) => {
      assert.isFalse(isHarmless(`${before}${key.join("")}`))
    })
  }

  it.prop("is one with a login, in which only the length is shown", [over(alphabets.alphanumeric, 1)], ([part]) => {
    const url = `postgres://u:${part.join("")}@host/db`
    assert.isFalse(isHarmless(url))
    assert.strictEqual(display(url), `(${url.length} characters)`)
  })

  it.prop("does not remain in a message, in either case, quoted or not", [
    over(`${alphabets.alphanumeric}+/=$.*(\\[ "`, 20)
  ], ([parts]) => {
    const value = `K${parts.join("")}7x7`
    for (const message of [`"${value}" is not a port`, `listens on ${value}, ${value.toLowerCase()}`]) {
      assert.notInclude(withoutValue(message, value).toLowerCase(), value.toLowerCase())
    }
  })
})

describe("display", () => {
  const harmless = [
    "6h",
    "soon",
    "page token",
    "-1 minute",
    "0.5",
    "70000",
    "100ms",
    "0.0.0.0",
    "[::1]",
    "yes",
    "",
    "greenhouse:acme",
    "greenhouse:名前",
    "hris.performance_review_cycles",
    "rollcall.{modell}",
    "<tool>",
    "scram-sha-256",
    "api.example.com/v1",
    "kafka://broker",
    "localhost:9092",
    "sweepInterval",
    "EU_API_KEY_FILE",
    "/run/secrets/rollcall_api_key"
  ]
  for (const text of harmless) it(`shows ${text || "an empty text"}`, () => assert.strictEqual(display(text), text))

  const secrets = [
    "sk_live_51H8xYzKq2",
    "x7Kp2mQ9",
    "550e8400-e29b-41d4-a716-446655440000",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmN",
    "postgres://u:p4ss@db/x",
    "me@example.com",
    "Tr0ub4dor&3",
    "p=secret",
    "correct horse battery staple",
    "4111111111111111",
    "dGhpcyBpcyBh",
    "Sommer2024",
    "x".repeat(1000)
  ]
  for (const text of secrets) {
    it(`shows only the length of ${text.slice(0, 40)}`, () => {
      assert.strictEqual(display(text), `(${text.length} characters)`)
    })
  }

  it("leaves the words of a foreign message, and the paths that are to be kept", () => {
    const message =
      "Cannot find package 'zod' imported from /tmp/x8A7b6/rollcall.config.ts: sk_live_51H8xYzKq2 is not defined"
    assert.strictEqual(
      withoutSecrets(message, (token) => token.startsWith("/tmp/")),
      "Cannot find package 'zod' imported from /tmp/x8A7b6/rollcall.config.ts: (18 characters) is not defined"
    )
  })
})
