/**
 * Gives kafkajs record batches that are encoded here, in a fraction of the time: kafkajs allocates several buffers for each header, and
 * an event has sixteen.
 *
 * Details
 * - kafkajs calls a codec with the encoded records of a batch, and sends what the codec returns. Our codecs ignore these records, which
 *   are empty, and return those of our messages.
 * - Their numbers are greater than 7. kafkajs finds the codec with the whole number, and writes the three lowest bits into the batch:
 *   the codec that readers use.
 *
 * Gotchas
 * - The first record of each batch has the number of the batch as its key. kafkajs encodes a batch again when it repeats a request, so the
 *   messages are kept until the send has ended.
 */
import kafkajs from "kafkajs"
import { type Codec, codecNumbers, codecs, compressors } from "./Compression.ts"
import type { PlacedMessage } from "./Driver.ts"
import { encodeRecords } from "./Records.ts"

/** The messages of each batch that is being sent, by its number. */
const batches = new Map<number, ReadonlyArray<PlacedMessage>>()
let lastNumber = 0

/** Bytes of an empty record before its key: its length, attributes, timestamp, offset, and the length of the key. */
const keyAt = 5

const typeOf = (codec: Codec): number => 8 + codecNumbers[codec]

for (const codec of codecs) {
  ;(kafkajs.CompressionCodecs as Record<number, unknown>)[typeOf(codec)] = () => ({
    compress: async ({ buffer }: { readonly buffer: Buffer }) => {
      const messages = batches.get(buffer.readUInt32BE(keyAt))
      if (messages === undefined) throw new Error("kafkajs encoded a batch that is not being sent")
      const records = encodeRecords(messages)
      return codec === "none" ? records : compressors[codec](records)
    }
  })
}

/** Sends one record batch to each of the messages' partitions. */
export const sendBatches = async (
  sender: Pick<kafkajs.Sender, "sendBatch">,
  codec: Codec,
  messages: ReadonlyArray<PlacedMessage>
): Promise<ReadonlyArray<kafkajs.RecordMetadata>> => {
  const numbers: Array<number> = []
  const placeholdersOf = (own: ReadonlyArray<PlacedMessage>, partition: number): Array<kafkajs.Message> => {
    const number = lastNumber = (lastNumber + 1) % 2 ** 32
    numbers.push(number)
    batches.set(number, own)
    const key = Buffer.alloc(4)
    key.writeUInt32BE(number)
    const rest: kafkajs.Message = { partition, key: null, value: null }
    return own.map((_, index) => index === 0 ? { partition, key, value: null } : rest)
  }
  const topicMessages = Array.from(Map.groupBy(messages, ({ topic }) => topic), ([topic, ofTopic]) => ({
    topic,
    messages: Array.from(
      Map.groupBy(ofTopic, ({ partition }) => partition),
      ([partition, own]) => placeholdersOf(own, partition)
    ).flat()
  }))
  try {
    return await sender.sendBatch({ compression: typeOf(codec), topicMessages })
  } finally {
    for (const number of numbers) batches.delete(number)
  }
}
