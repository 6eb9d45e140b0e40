import { assert, describe, it } from "@effect/vitest"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { longest } from "./LongestFirst.ts"

describe("the order of test files", () => {
  it("names files that exist, each once", () => {
    assert.deepStrictEqual(longest.filter((file) => !existsSync(join(import.meta.dirname, "..", file))), [])
    assert.strictEqual(new Set(longest).size, longest.length)
  })
})
