/**
 * Groups messages into sends. A send is one call of the client, small enough for the broker to accept.
 *
 * Invariants
 * 1. No record batch with more than one message exceeds its topic's limit   (K1)
 *
 * Gotchas
 * - From each send, kafkajs makes one record batch per partition, and a broker rejects a batch that is too large as a whole. A send
 *   is therefore limited as if all of its messages of one topic went to one partition, in one batch.
 */
import type { PlacedMessage } from "./driver/Driver.ts"

const batchOverheadBytes = 128
/** The longest length prefixes of a header's name and value, and everything in a record besides its key, value and headers. */
const [headerOverheadBytes, recordOverheadBytes] = [10, 40]

type Sized = Pick<PlacedMessage, "headers" | "key" | "value">

/** Upper bound of a message's size in its record batch (bytes). */
const sizeOf = ({ headers, key, value }: Sized): number => {
  let bytes = recordOverheadBytes + Buffer.byteLength(key) + (value?.length ?? 0)
  for (const name in headers) {
    bytes += headerOverheadBytes + Buffer.byteLength(name) + Buffer.byteLength(headers[name] ?? "")
  }
  return bytes
}

/** Whether a record batch of at most `limit` bytes can contain the message. */
export const fitsInBatch = (message: Sized, limit: number): boolean => sizeOf(message) + batchOverheadBytes <= limit

/** Groups messages, in order, into sends in which each topic's messages fit into one record batch. */
export const splitIntoSends = <Message extends Omit<PlacedMessage, "partition">>(
  messages: Iterable<Message>,
  limitOf: (topic: string) => number
): ReadonlyArray<ReadonlyArray<Message>> => {
  const sends: Array<Array<Message>> = []
  let send: Array<Message> = []
  let filled = new Map<string, number>()
  for (const message of messages) {
    const bytes = sizeOf(message)
    const sum = (filled.get(message.topic) ?? batchOverheadBytes) + bytes
    if (sum > limitOf(message.topic) && send.length > 0) {
      sends.push(send)
      send = []
      filled = new Map()
    }
    filled.set(message.topic, (filled.get(message.topic) ?? batchOverheadBytes) + bytes)
    send.push(message)
  }
  if (send.length > 0) sends.push(send)
  return sends
}
