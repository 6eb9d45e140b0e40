import { assert, describe, it } from "@effect/vitest"
import { rangesOf, secondsLeft, sizeOf } from "./DeliveryProgress.ts"

describe("the ids of deliveries", () => {
  it("become ranges that contain each of them once, and no other", () => {
    const ranges = rangesOf([5, 3, 4, 9, 4, 7, 8])
    assert.deepStrictEqual(ranges, [{ first: 3, last: 5 }, { first: 7, last: 9 }])
    assert.strictEqual(sizeOf(ranges), 6)
    assert.deepStrictEqual(rangesOf([]), [])
  })
})

describe("the time left", () => {
  const at = (done: number, open: number, due: number) => secondsLeft({ done, open, dead: 0 }, { elapsed: 10, due })

  it("follows the rate so far, but does not end before the last delivery is due", () => {
    assert.strictEqual(at(5, 10, 0), 20)
    assert.strictEqual(at(5, 10, 60), 60)
    assert.strictEqual(at(5, 10, 6), 20)
  })

  it("is unknown until a delivery is done, if all of them are due", () => {
    assert.isNull(at(0, 10, 0))
    assert.strictEqual(at(0, 10, 60), 60)
  })
})
