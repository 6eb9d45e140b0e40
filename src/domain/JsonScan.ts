/**
 * Finds the end of a JSON value in UTF-8 bytes without building the value.
 *
 * Invariants
 * 1. A value is accepted exactly if `JSON.parse` accepts its text
 *
 * Gotchas
 * - Nothing here is recursive: a response may be nested so deeply that a recursive walk would overflow the stack.
 * - If an object has a property twice, the last value is used, as in `JSON.parse`.
 */

/** Where a value is in the bytes. */
export interface Span {
  readonly from: number
  /** The first byte after the value. */
  readonly to: number
}

/** A value, and the places of some properties if it is an object. */
export interface ScannedValue extends Span {
  /** Levels of nesting; 0 if the value is neither an object nor an array. */
  readonly depth: number
  /**
   * True if the value contains a number that may have to become a string (see `RawRow.ts`): one with 16 or more digits, or with an
   * exponent of three digits.
   */
  readonly hasLongNumbers: boolean
  /** Values of the object's properties `id` and `changed_at`; null if it does not have the property. */
  readonly id: Span | null
  readonly changedAt: Span | null
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
/** The closing byte of an object or array is its opening byte plus 2. */
const openBrace = 0x7b
const openBracket = 0x5b
const minus = 0x2d
const plus = 0x2b
const point = 0x2e
const zero = 0x30
const lowerE = 0x65
const lowerU = 0x75

/** Marks the bytes at which the scan of a text stops: the quote, the backslash and the control characters. */
const stops = new Uint8Array(256).fill(1, 0, 0x20)
stops[quote] = stops[backslash] = 1

/** Marks the bytes that may follow a backslash, except `u`. */
const escapes = new Uint8Array(256)
for (const character of '"\\/bfnrt') escapes[character.charCodeAt(0)] = 1

// undefined, which is read behind the last byte, is neither a digit nor a hexadecimal digit
const isDigit = (byte: number | undefined): boolean => byte! >= zero && byte! <= 0x39
const isHex = (byte: number | undefined): boolean =>
  isDigit(byte) || (byte! >= 0x61 && byte! <= 0x66) || (byte! >= 0x41 && byte! <= 0x46)

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** The first byte at or after `at` that is not white space. */
const skipSpace = (bytes: Buffer, at: number): number => {
  let next = at
  while (bytes[next]! <= 0x20 && isSpace(bytes[next]!)) next++
  return next
}

/** The first byte after the escape whose backslash is at `at`; -1 if the escape is not valid. */
const endOfEscape = (bytes: Buffer, at: number): number => {
  const byte = bytes[at + 1]
  if (byte === lowerU) return [2, 3, 4, 5].every((offset) => isHex(bytes[at + offset])) ? at + 6 : -1
  return byte !== undefined && escapes[byte] === 1 ? at + 2 : -1
}

/** The first byte after the text whose opening quote is at `at`; -1 if the text is not valid. */
export const endOfText = (bytes: Buffer, at: number): number => {
  if (bytes[at] !== quote) return -1
  let next = at + 1
  for (;;) {
    while (stops[bytes[next]!] === 0) next++
    const byte = bytes[next]
    if (byte === quote) return next + 1
    if (byte !== backslash) return -1
    next = endOfEscape(bytes, next)
    if (next < 0) return -1
  }
}

const skipDigits = (bytes: Buffer, at: number): number => {
  let next = at
  while (isDigit(bytes[next])) next++
  return next
}

const maxExactDigits = 15
const maxExponentDigits = 2

/** The first byte after the number; negated if the number may be inexact. 0 if there is no number. */
const endOfNumber = (bytes: Buffer, at: number): number => {
  const first = bytes[at] === minus ? at + 1 : at
  let end = bytes[first] === zero ? first + 1 : skipDigits(bytes, first)
  if (end === first) return 0
  let isLong = end - first > maxExactDigits
  if (bytes[end] === point) {
    const fraction = end + 1
    end = skipDigits(bytes, fraction)
    if (end === fraction) return 0
  }
  if (((bytes[end] ?? 0) | 0x20) === lowerE) {
    const sign = bytes[end + 1]
    const exponent = sign === plus || sign === minus ? end + 2 : end + 1
    end = skipDigits(bytes, exponent)
    if (end === exponent) return 0
    isLong ||= end - exponent > maxExponentDigits
  }
  return isLong ? -end : end
}

const literals: ReadonlyMap<number, Uint8Array> = new Map(
  ["true", "false", "null"].map((word) => [word.charCodeAt(0), new TextEncoder().encode(word)])
)

/** The first byte after `true`, `false` or `null`; -1 if the text is another. */
const endOfLiteral = (bytes: Buffer, at: number): number => {
  const word = literals.get(bytes[at] ?? 0)
  return word !== undefined && word.every((byte, index) => bytes[at + index] === byte) ? at + word.length : -1
}

/** The value at a place that was scanned. */
export const valueAt = (bytes: Buffer, { from, to }: Span): unknown => JSON.parse(bytes.toString("utf8", from, to))

/** Whether the text from its opening to its closing quote is `name` (ASCII), in any spelling. */
export const isName = (bytes: Buffer, from: number, to: number, name: string): boolean => {
  let index = 0
  while (index < name.length && bytes[from + 1 + index] === name.charCodeAt(index)) index++
  if (index === name.length && to - from === name.length + 2) return true
  // every character may be written as an escape
  return bytes[from + 1 + index] === backslash && valueAt(bytes, { from, to }) === name
}

const isChangedAt = (bytes: Buffer, from: number, to: number) =>
  isName(bytes, from, to, "changed_at") ? "changed_at" : null

/** The opening bytes of the objects and arrays around the current byte. */
let open = new Uint8Array(256)

const enlarged = (stack: Uint8Array): Uint8Array<ArrayBuffer> => {
  const larger = new Uint8Array(2 * stack.length)
  larger.set(stack)
  return larger
}

/** The value whose first byte is at `at`; null if it is not valid. */
export const scanValue = (bytes: Buffer, at: number): ScannedValue | null => {
  let next = at
  let level = 0
  let depth = 0
  let hasLongNumbers = false
  let id: Span | null = null
  let changedAt: Span | null = null
  /** The property of the outermost object whose value is being scanned. */
  let property: "id" | "changed_at" | null = null
  let from = at
  let isAtName = false
  for (;;) {
    if (isAtName) {
      const end = endOfText(bytes, next)
      if (end < 0) return null
      if (level === 1) property = isName(bytes, next, end, "id") ? "id" : isChangedAt(bytes, next, end)
      next = skipSpace(bytes, end)
      if (bytes[next] !== colon) return null
      next = skipSpace(bytes, next + 1)
      if (level === 1) from = next
      isAtName = false
    }
    const byte = bytes[next]!
    if (byte === quote) {
      next = endOfText(bytes, next)
      if (next < 0) return null
    } else if (byte === openBrace || byte === openBracket) {
      if (level === open.length) open = enlarged(open)
      open[level++] = byte
      if (level > depth) depth = level
      next = skipSpace(bytes, next + 1)
      if (bytes[next] !== byte + 2) {
        isAtName = byte === openBrace
        continue
      }
      level--
      next++
    } else if (byte === minus || isDigit(byte)) {
      const end = endOfNumber(bytes, next)
      if (end === 0) return null
      if (end < 0) hasLongNumbers = true
      next = Math.abs(end)
    } else {
      next = endOfLiteral(bytes, next)
      if (next < 0) return null
    }
    for (;;) {
      if (level === 0) return { from: at, to: next, depth, hasLongNumbers, id, changedAt }
      if (level === 1 && property !== null) {
        if (property === "id") id = { from, to: next }
        else changedAt = { from, to: next }
        property = null
      }
      next = skipSpace(bytes, next)
      const after = bytes[next]
      const outer = open[level - 1]!
      next++
      if (after === comma) {
        next = skipSpace(bytes, next)
        isAtName = outer === openBrace
        break
      }
      if (after !== outer + 2) return null
      level--
    }
  }
}

/** The first byte after the value that starts at `at`; -1 if there is no valid value. */
const endOfValue = (bytes: Buffer, at: number): number => scanValue(bytes, at)?.to ?? -1

/**
 * The first byte after the object or array that opens at `at`; -1 if it is not valid. `member` returns the first byte after the member at
 * its argument.
 */
const endOfMembers = (bytes: Buffer, at: number, member: (at: number) => number): number => {
  const close = bytes[at]! + 2
  let next = skipSpace(bytes, at + 1)
  if (bytes[next] === close) return next + 1
  for (;;) {
    next = member(next)
    if (next < 0) return -1
    next = skipSpace(bytes, next)
    if (bytes[next] === close) return next + 1
    if (bytes[next] !== comma) return -1
    next = skipSpace(bytes, next + 1)
  }
}

/** Like `endOfValue`; if the value is an object, `inside` returns the first byte after the value of its property `name`. */
const endAround = (bytes: Buffer, at: number, name: string, inside: (at: number) => number): number =>
  bytes[at] !== openBrace ? endOfValue(bytes, at) : endOfMembers(bytes, at, (from) => {
    const to = endOfText(bytes, from)
    const colonAt = to < 0 ? to : skipSpace(bytes, to)
    if (bytes[colonAt] !== colon) return -1
    const value = skipSpace(bytes, colonAt + 1)
    return isName(bytes, from, to, name) ? inside(value) : endOfValue(bytes, value)
  })

/** The members of the array `data.<list>`, with the place of all of them. */
export interface ScannedList extends Span {
  readonly members: ReadonlyArray<ScannedValue>
}

/**
 * Finds the list in a response; null if the text is not valid JSON, `none` if it does not have the list, and `long` if the list has more
 * than `most` members. The rest of a long list is not scanned.
 */
export const scanList = (bytes: Buffer, list: string, most = Infinity): ScannedList | "none" | "long" | null => {
  let found: ScannedList | "none" = "none"
  let isLong = false
  const inList = (at: number) => {
    found = "none"
    if (bytes[at] !== openBracket) return endOfValue(bytes, at)
    const members: Array<ScannedValue> = []
    const to = endOfMembers(bytes, at, (from) => {
      const member = scanValue(bytes, from)
      isLong = members.length === most
      if (member === null || isLong) return -1
      members.push(member)
      return member.to
    })
    found = { from: at, to, members }
    return to
  }
  const inData = (at: number) => {
    found = "none"
    return endAround(bytes, at, list, inList)
  }
  const start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
  const end = endAround(bytes, skipSpace(bytes, start), "data", inData)
  if (isLong) return "long"
  return end >= 0 && skipSpace(bytes, end) === bytes.length ? found : null
}
