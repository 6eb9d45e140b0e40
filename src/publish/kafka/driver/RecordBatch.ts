/**
 * Record batches of Kafka's protocol (magic 2), written into one buffer without intermediate copies.
 *
 * Gotchas
 * - A length prefix has the length of the number in it. Each is written with the likely length first, and what follows is moved if
 *   that was wrong, which is rare.
 */
import { crc32c } from "@platformatic/kafka"
import type { HeaderTemplate } from "../Headers.ts"
import { sizeOf } from "../KafkaMessage.ts"
import { type Codec, codecNumbers, compressors } from "./Compression.ts"
import type { PlacedMessage } from "./Driver.ts"

export interface BatchOptions {
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly firstSequence: number
  readonly isTransactional: boolean
  /** Unix ms, of all messages. */
  readonly timestamp: number
  readonly codec: Codec
}

/** Bytes of a batch before its records. */
const headBytes = 61
/** The checksum covers everything after it, from here on. */
const summedFrom = 21
const transactional = 1 << 4

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

/** Writes what `put` writes, with its length before it. `likely`: about how many bytes that is. */
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

const encodedParts = new WeakMap<HeaderTemplate, ReadonlyArray<Buffer>>()

/** The encoded headers of a template, divided where the messages' own values belong. */
const partsOf = (template: HeaderTemplate): ReadonlyArray<Buffer> => {
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
      putText(target, headers.own[i - 1] ?? "")
      putBytes(target, parts[i]!)
    }
  })

const putHead = (bytes: Buffer, count: number, options: BatchOptions): void => {
  const { codec, firstSequence, isTransactional, producerEpoch, producerId, timestamp } = options
  bytes.writeBigInt64BE(0n, 0) // the broker sets the offset
  bytes.writeInt32BE(bytes.length - 12, 8)
  bytes.writeInt32BE(0, 12)
  bytes.writeInt8(2, 16)
  bytes.writeInt16BE(codecNumbers[codec] | (isTransactional ? transactional : 0), 21)
  bytes.writeInt32BE(count - 1, 23)
  bytes.writeBigInt64BE(BigInt(timestamp), 27)
  bytes.writeBigInt64BE(BigInt(timestamp), 35)
  bytes.writeBigInt64BE(producerId, 43)
  bytes.writeInt16BE(producerEpoch, 51)
  bytes.writeInt32BE(firstSequence, 53)
  bytes.writeInt32BE(count, 57)
  bytes.writeUInt32BE(crc32c(bytes.subarray(summedFrom)), 17)
}

/** One batch with these messages, in this order. Only compression takes a promise. */
export const encodeBatch = (
  messages: ReadonlyArray<PlacedMessage>,
  options: BatchOptions
): Buffer | Promise<Buffer> => {
  const { codec } = options
  const size = messages.reduce((sum, message) => sum + sizeOf(message), headBytes)
  const target: Target = { bytes: Buffer.allocUnsafe(size), at: headBytes }
  messages.forEach((message, index) => putRecord(target, message, index))
  const batch = target.bytes.subarray(0, target.at)
  if (codec === "none") {
    putHead(batch, messages.length, options)
    return batch
  }
  return compressors[codec](batch.subarray(headBytes)).then((records) => {
    const compressed = Buffer.concat([batch.subarray(0, headBytes), records])
    putHead(compressed, messages.length, options)
    return compressed
  })
}
