import { assert, describe, it } from "@effect/vitest"
import { idOf } from "../../../src/sandbox/world/SeededRandom.ts"

describe("ids", () => {
  it("are unique in a list of any length: their last six characters alone tell three hundred thousand apart", () => {
    const endings = new Set<string>()
    for (let serial = 1; serial <= 300_000; serial++) {
      endings.add(idOf(1, "greenhouse:acme", "ats.application", serial).slice(-6))
    }
    assert.strictEqual(endings.size, 300_000)
  })

  it("L6: are now and then the same in two models, and in two integrations", () => {
    assert.strictEqual(idOf(1, "a:b", "ats.offer", 5), idOf(1, "a:b", "ats.tag", 5))
    assert.notStrictEqual(idOf(1, "a:b", "ats.offer", 5), idOf(1, "c:d", "ats.offer", 5))
    assert.strictEqual(idOf(1, "a:b", "ats.offer", 10), idOf(1, "c:d", "ats.tag", 10))
    assert.notStrictEqual(idOf(1, "a:b", "ats.offer", 6), idOf(1, "a:b", "ats.tag", 6))
  })
})
