/**
 * Signs messages as Standard Webhooks 1.0 specifies.
 *
 * Gotchas
 * - Each message is signed with every secret, because during a rotation the receiver may have either the old or the new secret.
 */
import * as Mac from "effect/crypto/Mac"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const prefix = "whsec_"
const minBytes = 24
const maxBytes = 64

const bytesOf = (secret: string): Uint8Array | null => {
  const bytes = secret.startsWith(prefix) ? Result.getOrNull(Base64.decode(secret.slice(prefix.length))) : null
  return bytes !== null && bytes.length >= minBytes && bytes.length <= maxBytes ? bytes : null
}

/** A secret: `whsec_`, followed by 24 to 64 bytes as base64. */
export const Secret = Schema.String.check(
  Schema.makeFilter((secret) => bytesOf(secret) !== null, {
    expected: `${prefix} followed by ${minBytes} to ${maxBytes} bytes as base64`
  })
)

export interface Message {
  readonly id: string
  /** Time of this attempt, in ms. */
  readonly at: number
  readonly body: string
}

const layer = Mac.layerWebCrypto.pipe(Layer.provide(SecureRandom.layerWebCrypto))

/** The three headers of a message, with one signature per secret. Each secret must match `Secret`. */
export const headersOf = Effect.fnUntraced(
  function*(
    { at, body, id }: Message,
    secrets: ReadonlyArray<Redacted.Redacted<string>>
  ) {
    const mac = yield* Mac.Mac
    const timestamp = String(Math.floor(at / 1000))
    const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`)
    const signatures = yield* Effect.forEach(
      secrets,
      (secret) =>
        Mac.key(Mac.hmacSha256, bytesOf(Redacted.value(secret)) ?? new Uint8Array()).pipe(
          Effect.flatMap((key) => mac.sign(key, signed)),
          Effect.map((tag) => `v1,${Base64.encode(tag)}`)
        )
    )
    return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") }
  },
  Effect.provide(layer),
  Effect.orDie
)
