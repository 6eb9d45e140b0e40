/**
 * One row of a list as the API sent it. It is parsed when its value is needed: an unchanged record is recognized by its bytes and
 * never parsed.
 *
 * Gotchas
 * - An integer that a double cannot represent exactly, and a number that is too large for a double, become a string, as they were sent.
 *   A rounded id would be published as different content and could hide a change. Other numbers are rounded to the nearest double.
 */
import { type ScannedValue, scanValue, type Span, valueAt } from "./JsonScan.ts"

const reviveExactNumber = (_: string, value: unknown, { source }: { readonly source?: string } = {}): unknown => {
  if (typeof value !== "number" || source === undefined) return value
  if (!Number.isFinite(value)) return source
  return /^-?\d+$/.test(source) && BigInt(source) !== BigInt(value) ? source : value
}

/** Finds numbers that may have to become strings: 16 or more digits, or an exponent of three digits. */
const longNumber = /(?:^|[[,:])\s*-?(?:\d{16}|\d[\d.]*[eE]\+?\d{3})/

/**
 * Like `JSON.parse`, but no integer is rounded. A reviver takes sixty times as long, so it is used only for a text that `longNumber`
 * matches.
 */
export const parseExactly = (text: string): unknown =>
  longNumber.test(text) ? JSON.parse(text, reviveExactNumber) : JSON.parse(text)

export class RawRow {
  readonly #page: Buffer
  readonly #found: ScannedValue
  #value: unknown = undefined
  #isParsed = false

  /** `found`: the row's place in the bytes of `page`. */
  constructor(page: Buffer, found: ScannedValue) {
    this.#page = page
    this.#found = found
  }

  /** A row with this value. */
  static of(value: unknown): RawRow {
    const bytes = Buffer.from(JSON.stringify(value) ?? "null")
    return new RawRow(bytes, scanValue(bytes, 0)!)
  }

  get bytes(): Buffer {
    return this.#page.subarray(this.#found.from, this.#found.to)
  }

  /** Levels of nesting. */
  get depth(): number {
    return this.#found.depth
  }

  get isObject(): boolean {
    return this.#page[this.#found.from] === 0x7b
  }

  get value(): unknown {
    if (!this.#isParsed) {
      this.#value = this.#found.hasLongNumbers
        ? parseExactly(this.bytes.toString())
        : valueAt(this.#page, this.#found)
      this.#isParsed = true
    }
    return this.#value
  }

  /** Property `id`; undefined if the row has none. */
  get id(): unknown {
    return this.#property(this.#found.id)
  }

  /** Property `changed_at`. */
  get changedAt(): unknown {
    return this.#property(this.#found.changedAt)
  }

  #property(place: Span | null): unknown {
    if (place === null) return undefined
    const text = this.#page.toString("utf8", place.from, place.to)
    return text.startsWith('"') && !text.includes("\\") ? text.slice(1, -1) : parseExactly(text)
  }
}
