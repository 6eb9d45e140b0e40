/** A key that encrypts content in the store. */
import { createSecretKey, hash, type KeyObject } from "node:crypto"

export interface EncryptionKey {
  /** Derived from the key, so that a key has the same id everywhere. The id does not reveal the key. */
  readonly id: string
  readonly key: KeyObject
}

const keyBytes = 32

/** Undefined if the text is not the base64 form of 32 bytes. */
export const parseKey = (text: string): EncryptionKey | undefined => {
  const bytes = Buffer.from(text, "base64")
  if (bytes.length !== keyBytes || bytes.toString("base64").replace(/=+$/, "") !== text.replace(/=+$/, "")) {
    return undefined
  }
  return { id: hash("sha256", bytes, "base64url").slice(0, 8), key: createSecretKey(bytes) }
}
