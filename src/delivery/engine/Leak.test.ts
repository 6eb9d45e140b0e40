import { assert, describe, it } from "@effect/vitest"
import { comparedCollections, type Sample, suspects } from "./Leak.ts"

const limit = 1_000_000_000
const megabyte = 1_000_000

/** Samples whose heap grows by `growth` for the attempts of each step. */
const grown = (
  from: number,
  attemptsIn: (step: number) => Readonly<Record<string, number>>,
  growth: (attempted: Readonly<Record<string, number>>, step: number) => number
): ReadonlyArray<Sample> => {
  const attempts = new Map<string, number>()
  let heap = from
  return Array.from({ length: comparedCollections }, (_, step) => {
    const attempted = attemptsIn(step)
    for (const [name, count] of Object.entries(attempted)) attempts.set(name, (attempts.get(name) ?? 0) + count)
    heap += growth(attempted, step)
    return { heap, attempts: new Map(attempts) }
  })
}
/** Different handlers are busy at different times. */
const busy = (step: number) => ({ steady: 20, leaky: 1 + (step * 7) % 13, other: 1 + (step * 5) % 11 })
const leak = (attempted: Readonly<Record<string, number>>, step: number) =>
  (attempted["leaky"] ?? 0) * megabyte + (step % 3) * 1000

describe("memory that grows", () => {
  it("growth is traced to the handler whose attempts it follows", () => {
    assert.deepStrictEqual(suspects(grown(500 * megabyte, busy, leak), limit), ["leaky"])
  })

  it("all handlers that cannot be distinguished are named", () => {
    const together = suspects(grown(500 * megabyte, () => ({ one: 5, two: 5 }), () => 3 * megabyte), limit)
    assert.deepStrictEqual(together, ["one", "two"])
  })

  it("no handler is named if none ran", () => {
    assert.deepStrictEqual(suspects(grown(500 * megabyte, () => ({}), () => 3 * megabyte), limit), [])
  })

  it("growth is not reported while the heap has plenty of room, while memory is freed, or with too few samples", () => {
    assert.isNull(suspects(grown(100 * megabyte, busy, leak), limit))
    const waves = grown(500 * megabyte, busy, (_, step) => (step % 2 === 0 ? -15 : 20) * megabyte)
    assert.isNull(suspects(waves, limit))
    assert.isNull(suspects(grown(500 * megabyte, busy, leak).slice(1), limit))
  })
})
