/**
 * Encrypts the columns with content: AES-256-GCM, with a random nonce of 96 bits for each value.
 *
 * Invariants
 * 1. A value that was changed, or moved to another row or column, is not decrypted: its place is authenticated together with it
 * 2. Content that was stored before encryption was switched on is read as it is
 *
 * Gotchas
 * - The stored form is `enc1:<key id>:<base64url of nonce, ciphertext and tag>`. Unencrypted, these columns contain JSON, which never
 *   starts like that.
 * - An empty list is stored as it is: most rows have no changes.
 * - With random nonces, one key must not encrypt more than 2³² values (NIST SP 800-38D, section 8.3).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import type { EncryptionKey } from "../../domain/EncryptionKey.ts"
import { Damaged, missingKeys, StoreError } from "../StoreError.ts"

/** The configured keys, the newest first. New content is encrypted with the newest key, or stored unencrypted if there is none. */
export const EncryptionKeys = Context.Reference<ReadonlyArray<EncryptionKey>>("rollcall/store/EncryptionKeys", {
  defaultValue: () => []
})

const algorithm = "aes-256-gcm"
const nonceBytes = 12
const tagBytes = 16
/** The beginning of every encrypted value. */
export const prefix = "enc1:"
export const isSealed = (stored: unknown): stored is string => typeof stored === "string" && stored.startsWith(prefix)
const emptyList = "[]"

/** Column and row of a value, such as `events/7/content`. */
type Place = string
export const pendingPlace = (stream: number, id: string): Place => `pending/${stream}/${id}`
export const quarantinePlace = (stream: number, hash: string): Place => `quarantine/${stream}/${hash}`

const encrypt = ({ id, key }: EncryptionKey, place: Place, text: string): string => {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(place))
  const bytes = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()])
  return `${prefix}${id}:${bytes.toString("base64url")}`
}

class UnknownKey extends Error {
  readonly id: string
  constructor(id: string) {
    super(`no key ${id}`)
    this.id = id
  }
}

/** Throws `UnknownKey` if the key is not configured, and another error if the value is not what was encrypted in this place. */
const decrypt = (keys: ReadonlyMap<string, EncryptionKey>, place: Place, stored: string): string => {
  const [id = "", sealed = ""] = stored.slice(prefix.length).split(":")
  const found = keys.get(id)
  if (found === undefined) throw new UnknownKey(id)
  const bytes = Buffer.from(sealed, "base64url")
  const decipher = createDecipheriv(algorithm, found.key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
    .setAAD(Buffer.from(place))
    .setAuthTag(bytes.subarray(-tagBytes))
  return decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, "utf8") + decipher.final("utf8")
}

const damaged = (subject: string): StoreError =>
  new StoreError({
    reason: new Damaged({
      message: `encrypted content in ${subject} cannot be decrypted: it was changed, or moved from another row or store`
    })
  })

/**
 * `isInUse`: whether stored content may need the key with this id. If a value's key is neither configured nor in use,
 * the value counts as damaged.
 */
export const make = (
  configured: ReadonlyArray<EncryptionKey>,
  isInUse: (id: string) => Effect.Effect<boolean, StoreError>
) => {
  const keys = new Map(configured.map((key) => [key.id, key]))
  const [current] = configured
  const seal = <T extends string | null>(place: Place, text: T): T | string =>
    current === undefined || text === null || text === emptyList ? text : encrypt(current, place, text)
  const open = <T extends string | null>(place: Place, stored: T): T | string =>
    isSealed(stored) ? decrypt(keys, place, stored) : stored
  /** Fails with `MissingKey` if the error shows that a key which is in use is not configured; otherwise succeeds. */
  const unlessMissing = (error: unknown): Effect.Effect<void, StoreError> =>
    error instanceof UnknownKey
      ? Effect.flatMap(
        isInUse(error.id),
        (used) => used ? Effect.fail(missingKeys([error.id])) : Effect.void
      )
      : Effect.void
  return {
    /** Id of the key with which new values are encrypted; null if values are stored unencrypted. */
    current: current?.id ?? null,
    /** The beginning of values that are encrypted with the current key. */
    currentPrefix: current === undefined ? null : `${prefix}${current.id}:`,
    has: (id: string) => keys.has(id),
    /** True if stored values may be encrypted, so that a database cannot search them. */
    isUsed: configured.length > 0,
    seal,
    /** Like `openRows`, but null for each damaged row. */
    openEach: <A, B>(
      rows: ReadonlyArray<A>,
      map: (row: A, decrypted: typeof open) => B
    ): Effect.Effect<ReadonlyArray<B | null>, StoreError> =>
      Effect.forEach(rows, (row) => {
        try {
          return Effect.succeed(map(row, open))
        } catch (error) {
          return Effect.as(unlessMissing(error), null)
        }
      }),
    /** Fails with `MissingKey` if a key is not configured, and with `Damaged` if `open` cannot decrypt a value of a row although it is. */
    openRows: <A, B>(
      rows: ReadonlyArray<A>,
      subject: string | ((row: A) => string),
      map: (row: A, decrypted: typeof open) => B
    ): Effect.Effect<ReadonlyArray<B>, StoreError> =>
      Effect.suspend(() => {
        const opened: Array<B> = []
        for (const row of rows) {
          try {
            opened.push(map(row, open))
          } catch (error) {
            return Effect.andThen(
              unlessMissing(error),
              Effect.fail(damaged(typeof subject === "string" ? subject : subject(row)))
            )
          }
        }
        return Effect.succeed(opened)
      })
  }
}

export type ContentCipher = ReturnType<typeof make>
