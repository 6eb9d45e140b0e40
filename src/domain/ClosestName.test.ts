import { assert, describe, it } from "vitest"
import { closestName, distanceOf, similarName } from "./ClosestName.ts"

describe("the distance of two names", () => {
  it("is the number of characters to insert, remove or replace", () => {
    assert.strictEqual(distanceOf("intervall", "interval"), 1)
    assert.strictEqual(distanceOf("", "abc"), 3)
    assert.strictEqual(closestName("sweep", ["poll", "sweeps", "step"]), "sweeps")
  })

  it("does not depend on what follows the first hundred characters, so that a long text is compared as quickly as a name (I9)", () => {
    const start = "a".repeat(100)
    assert.strictEqual(distanceOf(`${start}${"b".repeat(60_000)}`, `${start}${"c".repeat(60_000)}`), 0)
    assert.strictEqual(distanceOf("b".repeat(60_000), "interval"), 100)
  })
})

describe("a similar name", () => {
  it("differs in one or two characters, and is another name", () => {
    assert.strictEqual(similarName("lever:acm", ["lever:acme", "lever:acme-eu", "lever:acmi-x"]), "lever:acme")
    assert.strictEqual(similarName("lever:acme", ["lever:acme"]), null)
    assert.strictEqual(similarName("lever:other", ["lever:acme"]), null)
    assert.strictEqual(similarName("lever:acm", []), null)
  })
})
