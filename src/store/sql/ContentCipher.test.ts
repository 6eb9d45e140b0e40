import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomBytes } from "node:crypto"
import { type EncryptionKey, parseKey } from "../../domain/EncryptionKey.ts"
import * as ContentCipher from "./ContentCipher.ts"

const newKey = () => parseKey(randomBytes(32).toString("base64"))!
const [first, second] = [newKey(), newKey()]
const place = "events/7/content"
/** `used`: the keys that stored content may need. */
const cipherWith = (keys: ReadonlyArray<EncryptionKey>, used: ReadonlyArray<EncryptionKey> = []) =>
  ContentCipher.make(keys, (id) => Effect.succeed(used.some((one) => one.id === id)))

const opened = (cipher: ContentCipher.ContentCipher, at: string, stored: string) =>
  cipher.openRows([stored], "the event log", (one, open) => open(at, one))

describe("encrypted content", () => {
  it.effect.prop("is returned unchanged, whatever it contains", [Schema.String], ([text]) => {
    const cipher = cipherWith([first])
    const json = JSON.stringify({ text, umlaut: "äöü 😀" })
    const stored = cipher.seal(place, json)
    assert.isTrue(stored.startsWith(`enc1:${first.id}:`))
    assert.notInclude(stored, "umlaut")
    return Effect.map(opened(cipher, place, stored), (found) => assert.deepStrictEqual(found, [json]))
  })

  it("differs each time, because its nonce is random, and never contains its key", () => {
    const cipher = cipherWith([first])
    assert.notStrictEqual(cipher.seal(place, "{}"), cipher.seal(place, "{}"))
    assert.notInclude(JSON.stringify(first), first.key.export().toString("base64"))
  })

  it.effect("is not decrypted in another row, another column, with another key, or after any change", () =>
    Effect.gen(function*() {
      const cipher = cipherWith([first])
      const stored = cipher.seal(place, `{"title":"secret"}`)
      const fails = Effect.fnUntraced(function*(by: ContentCipher.ContentCipher, at: string, text: string) {
        const { message, reason } = yield* Effect.flip(opened(by, at, text))
        assert.strictEqual(reason._tag, "Damaged")
        assert.notInclude(message, "secret")
      })
      yield* fails(cipher, "events/8/content", stored)
      yield* fails(cipher, "events/7/changes", stored)
      yield* fails(cipherWith([second]), place, stored)
      yield* fails(cipherWith([]), place, stored)
      const head = `enc1:${first.id}:`.length
      for (let at = head; at < stored.length - 1; at++) {
        const other = stored[at] === "A" ? "B" : "A"
        yield* fails(cipher, place, stored.slice(0, at) + other + stored.slice(at + 1))
      }
      for (const end of [head, head + 10, stored.length - 4]) yield* fails(cipher, place, stored.slice(0, end))
    }))

  it.effect("with a key that is in use, and that this process lacks, is not damaged: the error names the key and what to do", () =>
    Effect.gen(function*() {
      const stored = cipherWith([first]).seal(place, `{"title":"secret"}`)
      for (const keys of [[], [second]]) {
        const cipher = cipherWith(keys, [first])
        const errors = [
          yield* Effect.flip(opened(cipher, place, stored)),
          yield* Effect.flip(cipher.openEach([stored], (one, open) => open(place, one)))
        ]
        for (const { message, reason } of errors) {
          assert.strictEqual(reason._tag, "MissingKey")
          assert.isTrue(reason.retryable)
          for (const part of [`the key ${first.id},`, "The store is intact", "ROLLCALL_ENCRYPTION_KEY_FILE"]) {
            assert.include(message, part)
          }
        }
        // a key that nothing uses is a changed value
        const [damaged] = yield* cipherWith(keys).openEach([stored], (one, open) => open(place, one))
        assert.isNull(damaged)
      }
    }))

  it.effect("of an older key is read, new content has the newest key, and content that is not encrypted is read as it is", () =>
    Effect.gen(function*() {
      const stored = cipherWith([first]).seal(place, "{}")
      const cipher = cipherWith([second, first])
      assert.deepStrictEqual(yield* opened(cipher, place, stored), ["{}"])
      assert.isTrue(cipher.seal(place, "{}").startsWith(`enc1:${second.id}:`))
      assert.deepStrictEqual(yield* opened(cipher, place, `{"plain":1}`), [`{"plain":1}`])
      assert.isNull(cipher.seal(place, null))
      assert.strictEqual(cipher.seal(place, "[]"), "[]")
      assert.strictEqual(cipherWith([]).seal(place, "{}"), "{}")
    }))
})

describe("a key", () => {
  it("is 32 bytes in base64, and has the same id everywhere", () => {
    const text = randomBytes(32).toString("base64")
    assert.strictEqual(parseKey(text)?.id, parseKey(text)?.id)
    assert.isDefined(parseKey(text.replace("=", "")))
    for (
      const bad of ["", "secret", randomBytes(16).toString("base64"), randomBytes(33).toString("base64"), `${text}!`]
    ) {
      assert.isUndefined(parseKey(bad))
    }
  })
})
