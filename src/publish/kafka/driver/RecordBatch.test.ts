import { assert, describe, it } from "@effect/vitest"
import * as Library from "@platformatic/kafka"
import * as Schema from "effect/Schema"
import { codecs } from "./Compression.ts"
import type { PlacedMessage } from "./Driver.ts"
import * as Headers from "./Headers.ts"
import { type BatchOptions, encodeBatch } from "./RecordBatch.ts"

/** Lengths around the limits of one, two and three bytes of a length prefix. */
const Text = Schema.Union([
  Schema.String,
  Schema.Literals([0, 21, 22, 31, 63, 64, 65, 2730, 8180, 8191, 8192, 20_000]).pipe(
    Schema.annotate({ description: "length" })
  )
])
const textOf = (text: typeof Text.Type): string =>
  (typeof text === "string" ? text : text % 2 === 0 ? "x".repeat(text) : "é".repeat(text)).toWellFormed()

const Message = Schema.Struct({
  key: Text,
  value: Schema.NullOr(Text),
  shape: Schema.Literals([0, 1, 2, 3]),
  own: Schema.Tuple([Text, Text])
})

const templates = [
  Headers.template({}),
  Headers.template({ a: "1", "ñ": "é".repeat(100) }),
  Headers.template({ ce_id: null, ce_type: "created", ce_subject: null }),
  Headers.template({ first: "x", ce_id: null, ce_subject: null, last: "y".repeat(70) })
]

const placed = ({ key, own, shape, value }: typeof Message.Type): PlacedMessage => {
  const template = templates[shape]!
  return {
    topic: "t",
    partition: 0,
    key: textOf(key),
    value: value === null ? null : Buffer.from(textOf(value)),
    headers: { template, varying: shape < 2 ? [] : own.map(textOf) }
  }
}

const options: BatchOptions = {
  producerId: 123_456_789_012n,
  producerEpoch: 7,
  firstSequence: 1_000_000,
  isTransactional: true,
  timestamp: 1_795_468_930_758,
  codec: "none"
}

/** The batch as the library itself encodes it. */
const libraryBatch = (messages: ReadonlyArray<PlacedMessage>): Buffer =>
  Library.createRecordsBatch(
    messages.map(({ headers, key, value }) => ({
      topic: "t",
      partition: 0,
      key: Buffer.from(key),
      value: value as Buffer,
      timestamp: BigInt(options.timestamp),
      headers: new Map(
        Object.entries(Headers.toRecord(headers)).map(([name, text]) => [Buffer.from(name), Buffer.from(text)])
      )
    })),
    {
      transactionalId: "id",
      producerId: options.producerId,
      producerEpoch: options.producerEpoch,
      sequences: new Library.NumericMap([["t:0", options.firstSequence]])
    }
  ).buffer

const textsOf = ({ headers, key, value }: Library.KafkaRecord) => [key, value, ...headers.flat()].join()

describe("RecordBatch", () => {
  it.prop(
    "a batch has the same bytes as the library's own",
    [Schema.NonEmptyArray(Message)],
    async ([shapes]) => {
      const messages = shapes.map(placed)
      assert.isTrue((await encodeBatch(messages, options)).equals(libraryBatch(messages)))
    }
  )

  it("a batch of many records has the same bytes as the library's own", async () => {
    const messages = Array.from(
      { length: 9000 },
      (_, index) => placed({ key: `k${index}`, value: "v", shape: 2, own: [`id-${index}`, "s"] })
    )
    assert.isTrue((await encodeBatch(messages, options)).equals(libraryBatch(messages)))
  })

  it("a compressed batch holds the same records, for every codec", async () => {
    const messages = Array.from(
      { length: 300 },
      (_, index) => placed({ key: `k${index}`, value: 8192, shape: 3, own: [`id-${index}`, "s"] })
    )
    const plain = Library.readRecordsBatch(Library.Reader.from(await encodeBatch(messages, options)))
    for (const codec of codecs) {
      const bytes = await encodeBatch(messages, { ...options, codec })
      const batch = Library.readRecordsBatch(Library.Reader.from(bytes))
      assert.strictEqual(batch.attributes & 7, codecs.indexOf(codec), codec)
      assert.deepStrictEqual(batch.records.map(textsOf), plain.records.map(textsOf), codec)
      if (codec !== "none") assert.isBelow(bytes.length, 200_000, codec)
    }
  })
})
