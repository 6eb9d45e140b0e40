import { assert, describe, it } from "@effect/vitest"
import { captureScopeOf, captureScopes } from "./Shard.ts"

describe("Shards", () => {
  it("an integration keeps its shard in every version, because processes of two versions may share a store", () => {
    const ids = ["workday:acme", "greenhouse:acme", "bamboohr:größe", ""]
    assert.deepStrictEqual(ids.map(captureScopeOf), ["capture/22", "capture/48", "capture/52", "capture/5"])
  })

  it("a thousand integrations are spread over all shards, none of which has three times its share", () => {
    const counts = Map.groupBy(
      Array.from({ length: 1000 }, (_, n) => captureScopeOf(`workday:customer-${n}`)),
      (scope) => scope
    )
    assert.deepStrictEqual(new Set(counts.keys()), new Set(captureScopes))
    assert.isBelow(Math.max(...[...counts.values()].map(({ length }) => length)), 3 * 1000 / captureScopes.length)
  })
})
