/** The keys of a world, and those that its operator has configured for the processes that start now. */
import { hash } from "node:crypto"
import { type EncryptionKey, parseKey } from "../../../src/domain/EncryptionKey.ts"

const most = 6

export class OperatorKeys {
  readonly all: ReadonlyArray<EncryptionKey>
  #configured: ReadonlyArray<EncryptionKey>
  /** A new key that is configured below the current one. */
  #below: EncryptionKey | null = null
  #next = 0

  /** In some worlds the store is not encrypted at the start. */
  constructor(seed: number) {
    this.all = Array.from({ length: most }, (_, number) => parseKey(hash("sha256", `key ${seed} ${number}`, "base64"))!)
    this.#configured = []
    if (seed % 3 > 0) this.change(true)
  }

  /** A key that was added below becomes the first one. Otherwise a new key is added, as the first one or below. */
  change(first: boolean): void {
    const key = this.#below ?? this.all[this.#next++]
    if (key === undefined) return
    const others = this.#configured.filter((one) => one !== key)
    const isFirst = first || this.#below !== null
    this.#configured = isFirst ? [key, ...others] : [...others, key]
    this.#below = isFirst ? null : key
  }

  /** The operator removes keys that are retired. */
  remove(ids: ReadonlyArray<string>): void {
    this.#configured = this.#configured.filter(({ id }) => !ids.includes(id))
  }

  /** The keys for a process that starts now. A key that the process would lack is added before. */
  forStart(registered: ReadonlySet<string>): ReadonlyArray<EncryptionKey> {
    const missing = this.all.filter((key) => registered.has(key.id) && !this.#configured.includes(key))
    this.#configured = [...this.#configured, ...missing]
    return this.#configured
  }
}
