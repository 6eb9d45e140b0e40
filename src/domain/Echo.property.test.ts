import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import type { JsonObject } from "./Canonical.ts"
import { diff } from "./Diff.ts"
import { attributeEvent, isFulfilled, isOwnChangeOnly, keysOf, type RecordEvent } from "./Echo.ts"
import { expectationsOf, type OpenExpectation } from "./Expectation.ts"
import * as Processing from "./Processing.ts"

const { shape } = Processing.defaultProcessing("ats.application")

const Name = Schema.Literals(["a/b", "c", "d~e", "f"])
const names = ["a/b", "c", "d~e", "f"] as const
const Title = Schema.Literals(["Call", "Talk", "Tour"])

/** Author of a tag, rename or removal: one of two plugins, or an external user. */
const Edit = Schema.Struct({
  by: Schema.Literals(["one", "two", "external"]),
  depth: Schema.Literals([1, 2, 3]),
  what: Schema.Union([
    Schema.Struct({ kind: Schema.Literals(["add", "remove"]), name: Name }),
    Schema.Struct({ kind: Schema.Literal("rename"), title: Title })
  ])
})
type Edit = typeof Edit.Type
const Application = Schema.Struct({ tags: Schema.Array(Name), title: Title, note: Schema.Literals(["x", "y"]) })
type Application = typeof Application.Type

const plain = ({ note, tags, title }: Application, moved: string): JsonObject => ({
  id: "A",
  note,
  updated_at: moved,
  candidate_id: "C",
  candidate: { id: "C", tags: [...new Set(tags)].map((name) => ({ id: `t-${name}`, name })) },
  interviews: [{ id: "I", title }]
})

const applied = (edits: ReadonlyArray<Edit>, application: Application): Application =>
  edits.reduce<Application>((state, { what }) => {
    if (what.kind === "rename") return { ...state, title: what.title }
    const others = state.tags.filter((name) => name !== what.name)
    return { ...state, tags: what.kind === "add" ? [...others, what.name] : others }
  }, application)

const expectedOf = ({ what }: Edit) => {
  if (what.kind === "rename") {
    return expectationsOf("updateInterview", { application_id: "A" }, { interview_id: "I", title: what.title })
  }
  const write = what.kind === "add" ? "addTag" : "removeTag"
  return expectationsOf(write, { candidate_id: "C" }, { tag: { name: what.name } })
}

const openOf = (edits: ReadonlyArray<Edit>): ReadonlyArray<OpenExpectation> =>
  edits.flatMap((edit, index) =>
    edit.by === "external" ? [] : expectedOf(edit).filter(({ model }) => model === "ats.application").map((one) => ({
      ...one,
      id: index,
      write: String(index),
      name: "addTag" as const,
      plugin: edit.by,
      delivery: String(index),
      depth: edit.depth,
      fulfilledIn: []
    }))
  )

const escaped = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1")

/** The plugin edits that explain each changed path, derived from the edits instead of the diff. */
const explanations = (edits: ReadonlyArray<Edit>, before: Application, after: Application) => {
  const explained: Array<{ readonly path: string; readonly edit: Edit }> = []
  for (const edit of edits.filter(({ by }) => by !== "external")) {
    const { what } = edit
    if (what.kind === "rename") {
      if (before.title !== after.title && after.title === what.title) {
        explained.push({ path: "/interviews/I/title", edit })
      }
      continue
    }
    const had = before.tags.includes(what.name)
    const has = after.tags.includes(what.name)
    if (had !== has && has === (what.kind === "add")) {
      explained.push({ path: `/candidate/tags/${escaped(`t-${what.name}`)}`, edit })
    }
  }
  return explained
}

const shownBetween = (before: Application, after: Application, stamped: boolean): RecordEvent => {
  const content = plain(after, stamped ? "later" : "before")
  return { id: "A", kind: "updated", changes: diff(shape, plain(before, "before"), content), after: content }
}

describe("Echo", () => {
  it.prop(
    "exactly the paths explained by the writes of the deepest write's plugin are attributed, whatever else happened (L1, L3, L9)",
    [Application, Schema.Array(Edit), Schema.Literals(["x", "y"])],
    ([before, edits, note]) => {
      const after = applied(edits, { ...before, note })
      const shown = shownBetween(before, after, false)
      const { cause } = attributeEvent(shown, openOf(edits))
      const explained = explanations(edits, before, after)
      if (explained.length === 0) return assert.isNull(cause)
      assert.strictEqual(cause?.depth, Math.max(...explained.map(({ edit }) => edit.depth)))
      const own = explained.filter(({ edit }) => edit.by === cause?.plugin)
      assert.isTrue(own.some(({ edit }) => edit.depth === cause?.depth))
      assert.deepStrictEqual([...cause?.paths ?? []].sort(), [...new Set(own.map(({ path }) => path))].sort())
    }
  )

  it.prop(
    "an event is the plugin's own change only if there is no external change, and a timestamp is attributed only then (E1)",
    [Application, Schema.Array(Edit), Schema.Literals(["x", "y"])],
    ([before, edits, note]) => {
      const after = applied(edits, { ...before, note })
      const shown = shownBetween(before, after, true)
      const { cause } = attributeEvent(shown, openOf(edits))
      if (cause === null) return
      const own = new Set(
        explanations(edits, before, after).filter(({ edit }) => edit.by === cause.plugin).map(({ path }) => path)
      )
      const isOurs = shown.changes.every(({ path }) => path === "/updated_at" || own.has(path))
      assert.strictEqual(isOwnChangeOnly(cause, shown.changes), isOurs)
      assert.strictEqual(cause.paths.includes("/updated_at"), isOurs)
    }
  )

  it.prop(
    "the order of expectations is not significant, and a fulfilled expectation is visible in the record",
    [Application, Schema.Array(Edit)],
    ([before, edits]) => {
      const after = applied(edits, before)
      const shown = shownBetween(before, after, false)
      const open = openOf(edits)
      const { cause, fulfilled } = attributeEvent(shown, open)
      assert.deepStrictEqual(attributeEvent(shown, [...open].reverse()).cause, cause)
      for (const one of fulfilled) assert.isTrue(isFulfilled(one, shown.after))
      assert.deepStrictEqual(attributeEvent(shown, open.map((one) => ({ ...one, fulfilledIn: ["A"] }))), {
        cause: null,
        fulfilled: []
      })
    }
  )

  it("each expectation has one of the keys of its record", () => {
    const record = plain({ tags: [...names], title: "Call", note: "x" }, "")
    const keys = keysOf("ats.application", "A", record)
    for (const what of [{ kind: "add", name: "c" }, { kind: "rename", title: "Call" }] as const) {
      const [expected] = expectedOf({ by: "one", depth: 1, what })
      assert.include(keys, expected?.key)
    }
  })
})
