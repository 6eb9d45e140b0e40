import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import * as Guard from "./Guard.ts"

const limits = Guard.defaultThresholds
const count = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2_000 }))
const Publishing = Schema.Struct({
  minutes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 600 })),
  deletes: count,
  restores: count
})
const window = Duration.toMillis(limits.window)
const hour = 3_600_000
const isHeld = (count: number, of: number) => Guard.holdReason(limits, "deletes", count, of) !== null

describe("Guard", () => {
  it.prop("a held wave is also held if it is larger or if the stream is smaller", [count, count, count], ([
    count,
    more,
    of
  ]) => {
    if (!isHeld(count, of)) return
    assert.isTrue(isHeld(count + more, of))
    assert.isTrue(isHeld(count, Math.max(0, of - more)))
  })

  it.prop(
    "waves of at least five records and half of a stream, or of both of two records, are held, and a single record never is (D16)",
    [
      count
    ],
    ([of]) => {
      if (of >= 2) assert.isTrue(isHeld(of, of))
      if (of >= 9) assert.isTrue(isHeld(Math.ceil(of / 2), of))
      assert.isFalse(isHeld(1, of))
      assert.isFalse(isHeld(0, of))
    }
  )

  it("a wave is held above a hundred records and a fifth of the stream, not at these limits", () => {
    assert.deepStrictEqual([isHeld(100, 400), isHeld(101, 400)], [false, true])
    assert.deepStrictEqual([isHeld(200, 1_000), isHeld(201, 1_000)], [false, true])
    assert.deepStrictEqual([isHeld(4, 8), isHeld(5, 11), isHeld(5, 10)], [false, false, true])
    const isSwitched = (count: number, of: number) => Guard.isScopeChange(limits, "value", count, of)
    assert.deepStrictEqual([isSwitched(4, 4), isSwitched(5, 16), isSwitched(6, 20)], [false, true, false])
    const isFilled = (count: number, of: number) => Guard.isScopeChange(limits, "members", count, of)
    assert.deepStrictEqual([isFilled(4, 4), isFilled(14, 16), isFilled(15, 16), isFilled(18, 20)], [
      false,
      false,
      true,
      true
    ])
  })

  it("the reason for deleting and restoring the same records repeatedly does not claim more records than exist", () => {
    assert.strictEqual(Guard.holdReason(limits, "deletes", 8, 8), "all 8 records deleted")
    assert.strictEqual(
      Guard.holdReason(limits, "deletes", 11, 8),
      "11 deletes within one day, but there are only 8 records"
    )
  })

  it("the reason says how many of the changes are published, because the hold does not have these", () => {
    assert.strictEqual(
      Guard.holdReason({ ...limits, window: Duration.hours(36) }, "deletes", 6, 8, 1),
      "6 of 8 records deleted within 36 hours (1 of them is published); waves of at least 5 records and 50 % of all records are held"
    )
    assert.strictEqual(
      Guard.holdReason(limits, "restores", 8, 8, 3),
      "all 8 records restored (3 of them are published)"
    )
  })

  it("the reason for holding a small wave names both limits, as numbers without rounding errors", () => {
    const reasonFor = (smallShare: number) => Guard.holdReason({ ...limits, smallShare }, "deletes", 5, 8)
    const held = (share: string) =>
      `5 of 8 records deleted within one day; waves of at least 5 records and ${share} of all records are held`
    assert.strictEqual(reasonFor(0.5), held("50 %"))
    assert.strictEqual(reasonFor(0.55), held("55 %"))
    assert.strictEqual(reasonFor(0.625), held("62.5 %"))
  })

  it.prop("the window never ends early, is at most an hour too long, and its history stays small (D7)", [
    Schema.Array(Publishing)
  ], ([steps]) => {
    let now = 1_700_000_000_000
    let history: ReadonlyArray<Guard.HourlyCounts> = []
    const all: Array<readonly [at: number, deletes: number]> = []
    for (const { deletes, minutes, restores } of steps) {
      now += minutes * 60_000
      history = Guard.addToHistory(limits, history, now, { deletes, restores })
      all.push([now, deletes])
      const within = (length: number) => all.reduce((sum, [at, deletes]) => now - at < length ? sum + deletes : sum, 0)
      const counted = Guard.countRecent(limits, history, now).deletes
      assert.isAtLeast(counted, within(window))
      assert.isAtMost(counted, within(window + hour))
      assert.isAtMost(history.length, 26)
    }
    assert.strictEqual(Guard.countRecent(limits, Guard.resetWave(history, "deletes"), now).deletes, 0)
  })
})
