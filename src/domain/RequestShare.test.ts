import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { type Lease, share, silentAfter } from "./RequestShare.ts"

const lease = (process: string, slots: number, wanted: number, more: Partial<Lease> = {}): Lease => ({
  process,
  concurrency: 8,
  slots,
  wanted,
  turn: 10_000,
  age: 0,
  ...more
})
const silent = { age: silentAfter }
const slotsOf = (own: Lease, ...others: ReadonlyArray<Lease>) => share(own, others).slots
const goalOf = (own: Lease, ...others: ReadonlyArray<Lease>) => share(own, others).goal

const small = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))
const Claim = Schema.Struct({ process: small, wanted: small, returned: small, wait: Schema.Int })

describe("the share of a process in the request slots of an account", () => {
  it.prop("all leases together never exceed the concurrency", [small, Schema.Array(Claim)], ([concurrency, claims]) => {
    const leases = new Map<string, Lease>()
    for (const { process, returned, wait, wanted } of claims) {
      const name = String(process)
      const slots = Math.max(0, (leases.get(name)?.slots ?? 0) - returned)
      const own = lease(name, slots, Math.max(slots, wanted), { concurrency, turn: Math.abs(wait) % 5_000 })
      leases.set(name, { ...own, slots: share(own, [...leases.values()].filter((one) => one.process !== name)).slots })
      assert.isAtMost([...leases.values()].reduce((sum, { slots }) => sum + slots, 0), concurrency)
    }
  })

  it("is what it could use, if there is enough for all", () => {
    assert.deepStrictEqual(share(lease("a", 2, 3), [lease("b", 2, 2)]), { slots: 3, goal: 3, isContended: false })
  })

  it("is as large as that of the others, if there is not enough", () => {
    assert.deepStrictEqual(share(lease("a", 7, 8), [lease("b", 1, 8)]), { slots: 7, goal: 4, isContended: true })
    assert.strictEqual(goalOf(lease("a", 7, 8), lease("b", 1, 2)), 5)
  })

  it("leaves the last free slot to a process that has none", () => {
    assert.strictEqual(slotsOf(lease("a", 7, 8)), 7)
    assert.strictEqual(slotsOf(lease("b", 0, 8), lease("a", 7, 8)), 1)
    assert.strictEqual(slotsOf(lease("b", 0, 8), lease("a", 7, 8, silent)), 1)
    assert.strictEqual(slotsOf(lease("b", 1, 8), lease("a", 6, 8, silent)), 1)
  })

  it("at most doubles at a time, so that processes killed soon after their start leave slots free (X1)", () => {
    assert.deepStrictEqual([0, 1, 2, 4].map((slots) => slotsOf(lease("a", slots, 8))), [1, 2, 4, 7])
  })

  it("does not count on slots of a process that is perhaps dead, nor keeps any for it (X9)", () => {
    assert.strictEqual(goalOf(lease("a", 2, 8), lease("b", 3, 8, silent)), 4)
    assert.strictEqual(slotsOf(lease("a", 1, 1, { concurrency: 1 }), lease("b", 0, 1, silent)), 1)
    assert.strictEqual(slotsOf(lease("a", 0, 1, { concurrency: 1 }), lease("b", 0, 1, { ...silent, turn: 20_000 })), 1)
  })

  it("is one slot at a time for the process that waited longest, if there are fewer slots than processes", () => {
    const [one, two] = [lease("b", 0, 1, { turn: 3_000 }), lease("c", 0, 1, { turn: 4_000 })]
    const short = { concurrency: 1 }
    assert.strictEqual(goalOf(lease("a", 1, 1, { ...short, turn: 1_999 }), one, two), 1)
    assert.strictEqual(goalOf(lease("a", 1, 1, { ...short, turn: 2_000 }), one, two), 0)
    assert.strictEqual(slotsOf({ ...one, ...short }, lease("a", 0, 1, { turn: 0 }), two), 0)
    assert.strictEqual(slotsOf({ ...two, ...short }, lease("a", 0, 1, { turn: 0 }), one), 1)
  })

  it("follows the smallest concurrency, and is not taken from requests in flight", () => {
    assert.deepStrictEqual(share(lease("a", 6, 8), [lease("b", 0, 1, { concurrency: 3 })]), {
      slots: 6,
      goal: 1,
      isContended: true
    })
    assert.strictEqual(slotsOf(lease("b", 0, 1, { concurrency: 3 }), lease("a", 6, 8)), 0)
  })
})
