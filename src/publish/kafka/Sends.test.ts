import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { splitIntoSends } from "./Sends.ts"

const Message = Schema.Struct({
  topic: Schema.Literals(["a", "b"]),
  key: Schema.Literals(["k1", "k2", "k3"]),
  sizeBytes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2000 }))
})
const toMessage = ({ key, sizeBytes, topic }: typeof Message.Type) => ({
  topic,
  key,
  value: Buffer.alloc(sizeBytes),
  headers: {}
})

describe("Sends", () => {
  it.prop(
    "sends keep the order and all messages, and more than one message of a topic never exceeds its limit (K1)",
    [Schema.Array(Message), Schema.Int.check(Schema.isBetween({ minimum: 300, maximum: 5000 }))],
    ([shapes, limit]) => {
      const messages = shapes.map(toMessage)
      const sends = splitIntoSends(messages, () => limit)
      assert.deepStrictEqual(sends.flat(), messages)
      for (const send of sends) {
        for (const share of Map.groupBy(send, (message) => message.topic).values()) {
          const bytes = share.reduce((sum, message) => sum + message.key.length + (message.value?.length ?? 0), 0)
          if (share.length > 1) assert.isAtMost(bytes, limit)
        }
      }
    }
  )
})
