import { assert, describe, it } from "@effect/vitest"
import { advanceCheckpoint, emptyCheckpoint, topicLost } from "./TopicIntegrity.ts"

const at = (partition: number, offset: number) => ({ topic: "t", partition, offset })

describe("a topic's checkpoint", () => {
  it("counts the events and keeps the first and last positions and the end of each partition", () => {
    const first = advanceCheckpoint(emptyCheckpoint(6), [3, 5, 8], [at(4, 0), at(1, 0)])
    assert.deepStrictEqual(first, { partitions: 6, ends: [0, 1, 0, 0, 1], events: 3, first: 3, last: 8 })
    // A commit marker lies between the two sends.
    const second = advanceCheckpoint(first!, [9], [at(1, 2)])
    assert.deepStrictEqual(second, { partitions: 6, ends: [0, 3, 0, 0, 1], events: 4, first: 3, last: 9 })
  })

  it("is null if a batch begins before an end that its partition has already reached (K3)", () => {
    const checkpoint = advanceCheckpoint(emptyCheckpoint(6), [1], [at(2, 40)])!
    assert.isNull(advanceCheckpoint(checkpoint, [2], [at(2, 40)]))
    assert.isNull(advanceCheckpoint(checkpoint, [2], [at(0, 0), at(2, 0)]))
    assert.isNotNull(advanceCheckpoint(checkpoint, [2], [at(0, 0), at(2, 41)]))
  })

  it("covers several sends of one transaction", () => {
    assert.deepStrictEqual(advanceCheckpoint(emptyCheckpoint(1), [1, 2], [at(0, 5), at(0, 9)])?.ends, [10])
    assert.isNull(advanceCheckpoint(emptyCheckpoint(1), [1, 2], [at(0, 9), at(0, 5)]))
  })

  it("is reported as lost with the topic, the missing events and positions, and the remedy (K3)", () => {
    const checkpoint = { partitions: 6, ends: [7], events: 124, first: 3, last: 865 }
    for (const exists of [true, false]) {
      const { hint, message } = topicLost("hr.ats.tag", checkpoint, exists)
      for (const part of ["hr.ats.tag", "124 events", "positions 3 to 865"]) assert.include(message, part)
      assert.include(hint, "rollcall store adopt")
    }
  })
})
