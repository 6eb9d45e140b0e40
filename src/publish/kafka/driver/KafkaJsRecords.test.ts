import { afterEach, assert, beforeEach, describe, it, vi } from "@effect/vitest"
import kafkajs from "kafkajs"
import { createRequire } from "node:module"
import { codecs } from "./Compression.ts"
import type { PlacedMessage } from "./Driver.ts"
import * as Headers from "./Headers.ts"
import { sendBatches } from "./KafkaJsRecords.ts"

/** kafkajs' own encoding of the request that sends messages. */
const encodeRequest: (options: object) => { readonly encode: () => Promise<{ readonly buffer: Buffer }> } =
  createRequire(import.meta.url)("kafkajs/src/protocol/requests/produce/v7/request.js")

const bytesOf = async ({ compression, topicMessages = [] }: kafkajs.ProducerBatch): Promise<Buffer> => {
  const topicData = topicMessages.map(({ messages, topic }) => ({
    topic,
    partitions: Array.from(Map.groupBy(messages, ({ partition }) => partition), ([partition, messages]) => ({
      partition,
      messages,
      firstSequence: 7
    }))
  }))
  const options = { acks: -1, timeout: 1000, compression, topicData, transactionalId: "id", producerEpoch: 3 }
  return (await encodeRequest({ ...options, producerId: "12345" }).encode()).buffer
}

const template = Headers.template({ ce_type: "created", ce_id: null, "ñ": "é".repeat(70) })
const messages: ReadonlyArray<PlacedMessage> = Array.from({ length: 300 }, (_, index) => ({
  topic: `t${index % 2}`,
  partition: index % 3,
  key: `key ${index}`,
  value: index % 50 === 0 ? null : Buffer.from(`value ${"ü".repeat(index)}`),
  headers: index % 7 === 0 ? Headers.none : { template, varying: [`id ${index}`] }
}))

/** The messages as kafkajs takes them. */
const own: kafkajs.ProducerBatch = {
  compression: kafkajs.CompressionTypes.None,
  topicMessages: Array.from(Map.groupBy(messages, ({ topic }) => topic), ([topic, some]) => ({
    topic,
    messages: Array.from(Map.groupBy(some, ({ partition }) => partition).values()).flat().map(
      ({ headers, key, partition, value }) => ({ key, value, partition, headers: Headers.toRecord(headers) })
    )
  }))
}

describe("the batches that kafkajs sends for us", () => {
  // each batch contains the time
  beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: 1_795_468_930_758 }))
  afterEach(() => vi.useRealTimers())

  it("have the same bytes as its own, even if it repeats a request", async () => {
    const sent: Array<Buffer> = []
    const sendBatch = async (batch: kafkajs.ProducerBatch) => {
      sent.push(await bytesOf(batch), await bytesOf(batch))
      return []
    }
    await sendBatches({ sendBatch }, "none", messages)
    const expected = await bytesOf(own)
    assert.isTrue(sent.every((bytes) => bytes.equals(expected)))
    assert.strictEqual(sent.length, 2)
  })

  it("are not kept after the send, whether it succeeds or fails", async () => {
    const sent: Array<kafkajs.ProducerBatch> = []
    const sendBatch = async (batch: kafkajs.ProducerBatch) => {
      sent.push(batch)
      if (sent.length === 2) throw new Error("lost")
      return []
    }
    await sendBatches({ sendBatch }, "none", messages)
    await sendBatches({ sendBatch }, "none", messages).catch(() => {})
    for (const batch of sent) {
      const failure = await bytesOf(batch).then(() => null, String)
      assert.strictEqual(failure, "Error: kafkajs encoded a batch that is not being sent")
    }
  })

  it("name the codec that readers use", async () => {
    for (const codec of codecs) {
      let bytes: Buffer = Buffer.alloc(0)
      const sendBatch = async (batch: kafkajs.ProducerBatch) => {
        bytes = await bytesOf(batch)
        return []
      }
      await sendBatches({ sendBatch }, codec, messages.slice(0, 1))
      // transactional id, acks, time-out, number and name of topics, number of partitions, partition, size, then the head of the batch
      const batchAt = 2 + 2 + 2 + 4 + 4 + 2 + 2 + 4 + 4 + 4
      assert.strictEqual(bytes.readInt16BE(batchAt + 21) & 7, codecs.indexOf(codec), codec)
    }
  })
})
