/**
 * Records of Kafka's protocol (magic 2), written into one buffer without intermediate copies, for both drivers.
 *
 * Gotchas
 * - A greater number needs a longer length prefix. Space for the likely prefix is left first. In the rare case that the prefix is longer or
 *   shorter, the bytes after it are moved.
 */
import type { PlacedMessage } from "./Driver.ts"
import * as Headers from "./Headers.ts"

interface Target {
  readonly bytes: Buffer
  at: number
}

/** Bytes of a length prefix: a signed number in zigzag encoding, seven bits per byte. */
const prefixBytes = (length: number): number => {
  let bytes = 1
  for (let rest = length >>> 6; rest > 0; rest >>>= 7) bytes++
  return bytes
}

const putLength = (target: Target, length: number): void => {
  let rest = length * 2
  while (rest > 127) {
    target.bytes[target.at++] = rest & 127 | 128
    rest >>>= 7
  }
  target.bytes[target.at++] = rest
}

/** Runs `put`, and writes the number of its bytes in front of them. `likely`: about how many bytes that will be. */
const putSized = (target: Target, likely: number, put: () => void): void => {
  const start = target.at
  const reserved = prefixBytes(likely)
  target.at += reserved
  put()
  const end = target.at
  const length = end - start - reserved
  const needed = prefixBytes(length)
  if (needed !== reserved) target.bytes.copyWithin(start + needed, start + reserved, end)
  target.at = start
  putLength(target, length)
  target.at += length
}

const putBytes = (target: Target, bytes: Buffer): void => {
  bytes.copy(target.bytes, target.at)
  target.at += bytes.length
}

const putText = (target: Target, text: string): void =>
  putSized(target, text.length, () => {
    target.at += target.bytes.write(text, target.at)
  })

const encodedParts = new WeakMap<Headers.HeaderTemplate, ReadonlyArray<Buffer>>()

/** The encoded headers of a template, divided where the messages' own values belong. */
const partsOf = (template: Headers.HeaderTemplate): ReadonlyArray<Buffer> => {
  const known = encodedParts.get(template)
  if (known !== undefined) return known
  const target: Target = { bytes: Buffer.allocUnsafe(template.bytes + 10), at: 0 }
  const parts: Array<Buffer> = []
  let start = 0
  const endPart = () => {
    parts.push(target.bytes.subarray(start, target.at))
    start = target.at
  }
  putLength(target, template.names.length)
  template.names.forEach((name, index) => {
    putText(target, name)
    const value = template.values[index] ?? null
    if (value === null) endPart()
    else putText(target, value)
  })
  endPart()
  encodedParts.set(template, parts)
  return parts
}

const putRecord = (target: Target, { headers, key, value }: PlacedMessage, index: number): void =>
  putSized(target, key.length + (value?.length ?? 0) + headers.template.bytes, () => {
    target.bytes[target.at++] = 0 // attributes
    target.bytes[target.at++] = 0 // all records have the timestamp of the batch
    putLength(target, index)
    putText(target, key)
    if (value === null) target.bytes[target.at++] = 1 // the length -1
    else {
      putLength(target, value.length)
      putBytes(target, value)
    }
    const parts = partsOf(headers.template)
    putBytes(target, parts[0]!)
    for (let i = 1; i < parts.length; i++) {
      putText(target, headers.varying[i - 1] ?? "")
      putBytes(target, parts[i]!)
    }
  })

/** Upper bound of a message's size in its record batch (bytes), assuming the longest form of every length prefix. */
export const sizeOf = ({ headers, key, value }: Pick<PlacedMessage, "headers" | "key" | "value">): number =>
  40 + Buffer.byteLength(key) + (value?.length ?? 0) + Headers.sizeOf(headers)

/** The records of a batch, in this order, behind as many bytes for its head. */
export const encodeRecords = (messages: ReadonlyArray<PlacedMessage>, headBytes = 0): Buffer => {
  const size = messages.reduce((sum, message) => sum + sizeOf(message), headBytes)
  const target: Target = { bytes: Buffer.allocUnsafe(size), at: headBytes }
  messages.forEach((message, index) => putRecord(target, message, index))
  return target.bytes.subarray(0, target.at)
}
