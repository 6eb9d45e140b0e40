import { assert, describe, it } from "@effect/vitest"
import { advanceCheckpoint, emptyCheckpoint, topicLost } from "../../../src/publish/kafka/TopicIntegrity.ts"

const at = (partition: number, offset: number) => ({ topic: "t", partition, offset })

describe("what is written down about a topic", () => {
  it("counts its events and keeps the first and the last position, and an end that each partition has reached", () => {
    const first = advanceCheckpoint(emptyCheckpoint(6), [3, 5, 8], [at(4, 0), at(1, 0)])
    assert.deepStrictEqual(first, { partitions: 6, ends: [0, 1, 0, 0, 1], events: 3, first: 3, last: 8 })
    // a commit marker lies between the two sends
    const second = advanceCheckpoint(first!, [9], [at(1, 2)])
    assert.deepStrictEqual(second, { partitions: 6, ends: [0, 3, 0, 0, 1], events: 4, first: 3, last: 9 })
  })

  it("is given up where a partition begins before an end that it had reached (K3)", () => {
    const memory = advanceCheckpoint(emptyCheckpoint(6), [1], [at(2, 40)])!
    assert.isNull(advanceCheckpoint(memory, [2], [at(2, 40)]))
    assert.isNull(advanceCheckpoint(memory, [2], [at(0, 0), at(2, 0)]))
    assert.isNotNull(advanceCheckpoint(memory, [2], [at(0, 0), at(2, 41)]))
  })

  it("several sends of one transaction follow each other", () => {
    assert.deepStrictEqual(advanceCheckpoint(emptyCheckpoint(1), [1, 2], [at(0, 5), at(0, 9)])?.ends, [10])
    assert.isNull(advanceCheckpoint(emptyCheckpoint(1), [1, 2], [at(0, 9), at(0, 5)]))
  })

  it("a loss names the topic, how many events and which positions are missing, and how they are published again (K3)", () => {
    const memory = { partitions: 6, ends: [7], events: 124, first: 3, last: 865 }
    for (const isThere of [true, false]) {
      const { hint, message } = topicLost("hr.ats.tag", memory, isThere)
      for (const part of ["hr.ats.tag", "124 events", "positions 3 to 865"]) assert.include(message, part)
      assert.include(hint, "rollcall store adopt")
    }
  })
})
