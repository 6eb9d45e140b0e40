import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import type { JsonObject } from "./Canonical.ts"
import { diff } from "./Diff.ts"
import * as Processing from "./Processing.ts"
import { findScopeChanges, keepPublished } from "./ScopeChange.ts"

const { shape } = Processing.defaultProcessing("ats.application")
const found = (before: JsonObject, after: JsonObject) => findScopeChanges(before, after, diff(shape, before, after))

const value = Schema.NullOr(Schema.Literals(["x", "y"]))
const Content = Schema.Struct({
  id: Schema.Literal("A"),
  title: Schema.optionalKey(value),
  "a/b": value,
  candidate: Schema.NullOr(Schema.Struct({ first_name: value, tags: Schema.Array(Schema.Struct({ id: value })) })),
  interviews: Schema.Array(Schema.Struct({ id: Schema.Literals(["1", "2"]), title: value }))
})
const plain = (content: typeof Content.Type): JsonObject => JSON.parse(JSON.stringify(content)) as JsonObject

describe("Scope", () => {
  it("a path has the same name in all records, whatever members their arrays have (C3)", () => {
    const before = { interviews: [{ id: "i1", title: "Talk" }, { id: "i2", title: "Test" }], "a/b": "x", n: { m: 1 } }
    const after = { interviews: [{ id: "i2", title: null }, { id: "i1", title: null }], "a/b": null, n: null }
    assert.deepStrictEqual(found(before, after), [
      { path: "/a~1b", to: "nothing" },
      { path: "/interviews/*/title", to: "nothing" },
      { path: "/n", to: "nothing" }
    ])
    assert.deepStrictEqual(found(after, before).map(({ to }) => to), ["value", "value", "value"])
  })

  it("an array that becomes empty is a scope change, an added or removed member is not", () => {
    const [one, two] = [{ id: "1", title: "x" }, { id: "2", title: "y" }]
    assert.deepStrictEqual(found({ interviews: [one, two] }, { interviews: [] }), [{
      path: "/interviews",
      to: "nothing"
    }])
    assert.deepStrictEqual(found({ interviews: [one, two] }, { interviews: [one] }), [])
  })

  it("an empty array that gets its first members is distinguished from a field that comes back", () => {
    const interviews = [{ id: "1", title: "x" }]
    assert.deepStrictEqual(found({ interviews: [] }, { interviews }), [{ path: "/interviews", to: "members" }])
    assert.deepStrictEqual(found({ interviews: null }, { interviews }), [{ path: "/interviews", to: "value" }])
    assert.deepStrictEqual(found({}, { interviews }), [{ path: "/interviews", to: "value" }])
  })

  it("a value that comes back changed is a change", () => {
    assert.deepStrictEqual(keepPublished({ title: "x", n: 1 }, { title: "y", n: 2 }, ["/title"]), { title: "y", n: 2 })
    assert.deepStrictEqual(keepPublished({ title: "x", n: 1 }, { title: null, n: 2 }, ["/title"]), { title: "x", n: 2 })
    assert.deepStrictEqual(keepPublished({ n: 1 }, { title: "x", n: 2 }, ["/title"]), { n: 2 })
  })

  it.prop(
    "keeping the published values at all scope change paths leaves no scope change and does not affect other values (C7)",
    [Content, Content],
    ([a, b]) => {
      const [before, after] = [plain(a), plain(b)]
      const paths = found(before, after).map(({ path }) => path)
      const kept = keepPublished(before, after, paths)
      const left = found(before, kept).filter(({ path }) => paths.includes(path))
      assert.deepStrictEqual(left, [])
      if (paths.length === 0) assert.strictEqual(kept, after)
    }
  )
})
