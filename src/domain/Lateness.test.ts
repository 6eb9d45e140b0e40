import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import { widenOverlap } from "./Lateness.ts"

const minutes = (count: number) => Duration.toMillis(Duration.minutes(count))

/** The overlaps in minutes, from 5 on, if every change is a day late. */
const extensions = (minOverlap: Duration.Duration, times: number) => {
  let overlap = minutes(5)
  return Array.from({ length: times }, () => {
    overlap = widenOverlap(overlap, minutes(24 * 60), { interval: Duration.minutes(1), minOverlap })
    return overlap / minutes(1)
  })
}

describe("Lateness", () => {
  it("the overlap about doubles at most each time, up to six hours (W3)", () => {
    assert.deepStrictEqual(extensions(Duration.minutes(5), 8), [16, 38, 82, 170, 346, 360, 360, 360])
  })

  it("a raised minimum overlap is part of what polls cover, so the overlap is extended beyond it (W3)", () => {
    assert.deepStrictEqual(extensions(Duration.minutes(30), 2), [66, 138])
    assert.deepStrictEqual(extensions(Duration.hours(8), 1), [360])
  })
})
