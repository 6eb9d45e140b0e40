/** Record batches of Kafka's protocol (magic 2): the head, and the records. */
import { crc32c } from "@platformatic/kafka"
import { type Codec, codecNumbers, compressors } from "./Compression.ts"
import type { PlacedMessage } from "./Driver.ts"
import { encodeRecords } from "./Records.ts"

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
  const batch = encodeRecords(messages, headBytes)
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
