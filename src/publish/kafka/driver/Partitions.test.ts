import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import kafkajs from "kafkajs"
import { partitionOf } from "./Partitions.ts"

describe("Partitions", () => {
  it.prop(
    "a key's partition is the one that kafkajs chooses (I5)",
    [Schema.String, Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 50 }))],
    ([key, partitions]) => {
      const partition = kafkajs.Partitioners.DefaultPartitioner()({
        topic: "t",
        partitionMetadata: Array.from({ length: partitions }, (_, partitionId) => ({
          partitionId,
          partitionErrorCode: 0,
          leader: 1,
          replicas: [1],
          isr: [1]
        })),
        message: { key, value: "" }
      })
      assert.strictEqual(partitionOf(key, partitions), partition)
    }
  )
})
