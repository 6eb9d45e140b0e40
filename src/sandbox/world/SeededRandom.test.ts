import { assert, describe, it } from "@effect/vitest"
import { idOf } from "./SeededRandom.ts"

describe("ids", () => {
  it("are unique in a list of any length: the last six characters alone distinguish 300,000 ids", () => {
    const endings = new Set<string>()
    for (let serial = 1; serial <= 300_000; serial++) {
      endings.add(idOf(1, "greenhouse:acme", "ats.application", serial).slice(-6))
    }
    assert.strictEqual(endings.size, 300_000)
  })

  it("are sometimes equal in two models, and in two integrations (L6)", () => {
    assert.strictEqual(idOf(1, "a:b", "ats.offer", 5), idOf(1, "a:b", "ats.tag", 5))
    assert.notStrictEqual(idOf(1, "a:b", "ats.offer", 5), idOf(1, "c:d", "ats.offer", 5))
    assert.strictEqual(idOf(1, "a:b", "ats.offer", 10), idOf(1, "c:d", "ats.tag", 10))
    assert.notStrictEqual(idOf(1, "a:b", "ats.offer", 6), idOf(1, "a:b", "ats.tag", 6))
  })
})
