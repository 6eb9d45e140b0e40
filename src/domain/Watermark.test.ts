import { assert, describe, it } from "@effect/vitest"
import { estimateWatermark, latestServerTime, parseInstant, parseTime } from "./Watermark.ts"

const noon = Date.parse("2026-03-01T12:00:00Z")
const answer = (serverTime: number | null, requestedAt = noon, duration = 200) => ({
  serverTime,
  requestedAt,
  duration
})

describe("Watermark", () => {
  it("dates from a cache on a slow clock do not make a time that has come a later one, and one in a wrong zone stays later (B2, B4)", () => {
    let clockOffsets: ReadonlyArray<number> = []
    // our clock is five minutes slow, and every `Date` is minutes old
    for (const age of [290_000, 280_000, 285_000, 270_000, 295_000]) {
      clockOffsets = estimateWatermark(clockOffsets, answer(noon - age, noon - 300_000)).clockOffsets
    }
    const latest = latestServerTime(clockOffsets, answer(noon - 290_000, noon - 300_000))
    assert.isAtLeast(latest, noon)
    assert.isAtMost(latest, noon + 1_799_000)
  })

  it("a wrong `Date` among the first responses makes no time that has come a later one, nor the reverse (B1, B2)", () => {
    const yesterday = noon - 86_400_000
    const offsetsOf = (...dates: ReadonlyArray<number>) =>
      dates.reduce<ReadonlyArray<number>>((offsets, date) => estimateWatermark(offsets, answer(date)).clockOffsets, [])
    assert.isAtLeast(latestServerTime(offsetsOf(yesterday), answer(null)), noon)
    for (const offsets of [offsetsOf(yesterday, noon), offsetsOf(noon, yesterday)]) {
      for (const date of [null, yesterday]) assert.isAtLeast(latestServerTime(offsets, answer(date)), noon)
    }
    const tomorrow = noon + 86_400_000
    for (const offsets of [offsetsOf(tomorrow), offsetsOf(tomorrow, noon), offsetsOf(noon, tomorrow)]) {
      assert.isAtMost(latestServerTime(offsets, answer(null)), noon + 1_799_000)
    }
  })

  it("a client clock that is two minutes off never moves the watermark past the server's clock (W4)", () => {
    for (const skew of [-120_000, 120_000]) {
      const first = estimateWatermark([], answer(noon, noon + skew))
      assert.isAtMost(first.watermark, noon - 1_000)
      let { clockOffsets } = first
      for (const later of [60_000, 90_000, 120_000, 150_000]) {
        clockOffsets = estimateWatermark(clockOffsets, answer(noon + later, noon + later + skew)).clockOffsets
      }
      const sixth = estimateWatermark(clockOffsets, answer(noon + 180_000, noon + 180_000 + skew))
      assert.strictEqual(sixth.watermark, noon + 180_000 - 1_000 - 200)
    }
  })

  it("a client clock that jumps during a run does not move the watermark (W4)", () => {
    const { clockOffsets } = estimateWatermark([], answer(noon))
    for (const jump of [-3_600_000, 3_600_000]) {
      assert.isAtMost(
        estimateWatermark(clockOffsets, answer(noon + 60_000, noon + 60_000 + jump)).watermark,
        noon + 60_000
      )
    }
  })

  it("the first response without a Date after our clock was set right does not put the watermark past now (W4, W5)", () => {
    // our clock was wrong before: an earlier process had it, or the time service has set it since
    for (const slow of [600_000, 86_400_000]) {
      let offsets: ReadonlyArray<number> = []
      for (let i = 0; i < 9; i++) offsets = estimateWatermark(offsets, answer(noon, noon - slow)).clockOffsets
      assert.isAtMost(estimateWatermark(offsets, answer(null, noon + 60_000)).watermark, noon + 60_000)
    }
  })

  it("without a Date the watermark comes from our clock, minus the time by which it is known to be ahead (W5)", () => {
    for (const ahead of [90_000, -90_000]) {
      let offsets: ReadonlyArray<number> = []
      for (let i = 0; i < 5; i++) offsets = estimateWatermark(offsets, answer(noon - ahead)).clockOffsets
      const estimate = estimateWatermark(offsets, answer(null, noon + 60_000))
      assert.approximately(estimate.watermark, noon + 60_000 - Math.max(0, ahead) - 1_200, 200)
    }
  })

  it("a cached Date that is 30 s old only causes more overlap (W5)", () => {
    const { clockOffsets } = estimateWatermark([], answer(noon))
    assert.isAtMost(estimateWatermark(clockOffsets, answer(noon + 30_000, noon + 60_000)).watermark, noon + 60_000)
  })

  it("a Date that is a day ahead is recognized as skewed, even in the first response (W10)", () => {
    assert.isAtMost(estimateWatermark([], answer(noon + 86_400_000)).watermark, noon)
    const { clockOffsets } = estimateWatermark([], answer(noon))
    const mad = estimateWatermark(clockOffsets, answer(noon + 86_400_000 + 60_000, noon + 60_000))
    assert.isTrue(mad.isSkewed)
    assert.isAtMost(mad.watermark, noon + 60_000)
  })

  it("a first Date that is a day ahead is not used if later responses have none, or a second one like it (W5, W10)", () => {
    const { clockOffsets } = estimateWatermark([], answer(noon + 86_400_000))
    assert.isAtMost(estimateWatermark(clockOffsets, answer(null, noon + 60_000)).watermark, noon + 60_000)
    assert.isAtMost(estimateWatermark(clockOffsets, answer(noon + 86_460_000, noon + 60_000)).watermark, noon + 60_000)
  })

  it("two Dates a day ahead among the first four do not become the known offset (W10)", () => {
    let offsets: ReadonlyArray<number> = []
    for (const [minutes, wrong] of [[0, 0], [1, 86_400_000], [2, 86_400_000], [3, 0]] as const) {
      const now = noon + minutes * 60_000
      const estimate = estimateWatermark(offsets, answer(now + wrong, now))
      assert.isAtMost(estimate.watermark, now)
      offsets = estimate.clockOffsets
      assert.isAtMost(estimateWatermark(offsets, answer(null, now + 30_000)).watermark, now + 30_000)
    }
  })

  it("a single wrong Date does not become the known offset", () => {
    let offsets: ReadonlyArray<number> = []
    for (let i = 0; i < 5; i++) {
      offsets = estimateWatermark(offsets, answer(noon + i * 60_000, noon + i * 60_000)).clockOffsets
    }
    offsets = estimateWatermark(offsets, answer(noon + 86_400_000, noon + 300_000)).clockOffsets
    assert.isAtMost(estimateWatermark(offsets, answer(null, noon + 360_000)).watermark, noon + 360_000)
  })

  it("time zone offsets and a missing Z are parsed as the same instant (W9)", () => {
    for (
      const text of [
        "2026-03-29T01:30:00Z",
        "2026-03-29T03:30:00+02:00",
        "2026-03-29T01:30:00.000",
        "2026-03-28T20:30:00-0500",
        "2026-03-29T03:30:00+02",
        "2026-03-29 03:30:00.000+02"
      ]
    ) {
      assert.strictEqual(parseTime(text), Date.parse("2026-03-29T01:30:00Z"), text)
    }
    for (const none of [null, undefined, 17, "", "soon"]) assert.isNull(parseTime(none))
  })

  it("a time that a caller wrote has a zone and a day that exists, so that it is the same time on every machine", () => {
    const [time, millis] = [Date.parse("2026-03-29T01:30:00Z"), Date.parse("2026-03-29T01:30:00.123Z")]
    for (
      const text of ["2026-03-29T01:30:00Z", "2026-03-29t01:30z", "2026-03-29T03:30:00+02:00", "2026-03-28T20:30-05:00"]
    ) {
      assert.strictEqual(parseInstant(text), time, text)
    }
    assert.strictEqual(parseInstant("2026-03-29T01:30:00.123456789Z"), millis)
    assert.strictEqual(parseInstant("9999-12-31T23:59:59Z"), Date.parse("9999-12-31T23:59:59Z"))
    const others = [
      "",
      "1",
      "2026",
      "March 7",
      "12/13/2026",
      "2026-03-29",
      "2026-03-29T01:30:00",
      "2026-03-29 01:30:00Z"
    ]
    for (
      const text of [
        ...others,
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-03-29T25:00:00Z",
        "+275760-09-13T00:00:00Z"
      ]
    ) {
      assert.isNull(parseInstant(text), text)
    }
  })
})
