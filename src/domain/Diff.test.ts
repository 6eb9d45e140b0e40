import { assert, describe, it } from "@effect/vitest"
import { canonical, canonicalHash, type JsonObject } from "./Canonical.ts"
import { defaultProcessing as processingOf } from "./Processing.ts"

const { shape } = processingOf("ats.application")
import { diff, touchesNull } from "./Diff.ts"

const application: JsonObject = {
  id: "A1",
  outcome: "PENDING",
  changed_at: "2026-01-01T00:00:00.000Z",
  candidate: { id: "C1", first_name: "Ada", changed_at: "2026-01-01T00:00:00.000Z", tags: [{ id: "T1", name: "go" }] },
  interviews: [{ id: "I1", title: "Phone" }, { id: "I/2", title: "Site" }],
  screening_question_answers: [{ answer: 1 }, { answer: 2 }],
  custom_fields: { changed_at: "yesterday" }
}

describe("Diff", () => {
  it("members of set-like arrays are addressed by id, escaped for JSON Pointer", () => {
    const after = { ...application, interviews: [{ id: "I/2", title: "On site" }, { id: "I3", title: "Final" }] }
    assert.deepStrictEqual(diff(shape, application, after), [
      { path: "/interviews/I~12/title", before: "Site", after: "On site" },
      { path: "/interviews/I1", before: { id: "I1", title: "Phone" }, after: null },
      { path: "/interviews/I3", before: null, after: { id: "I3", title: "Final" } }
    ])
  })

  it("a nested change and a change of the record itself give one diff with both paths (N3)", () => {
    const after = {
      ...application,
      outcome: "HIRED",
      candidate: { id: "C1", first_name: "Ada", tags: [{ id: "T1", name: "rust" }] }
    }
    assert.deepStrictEqual(diff(shape, application, after).map((change) => change.path), [
      "/candidate/tags/T1/name",
      "/outcome"
    ])
  })

  it("changed_at is volatile on the record and on embedded records, but not in custom fields", () => {
    const after = {
      ...application,
      changed_at: "2027",
      candidate: { ...(application["candidate"] as JsonObject), changed_at: "2027" }
    }
    assert.deepStrictEqual(diff(shape, application, after), [])
    assert.strictEqual(canonicalHash(shape, application), canonicalHash(shape, after))
    const custom = { ...application, custom_fields: { changed_at: "today" } }
    assert.deepStrictEqual(diff(shape, application, custom).map((change) => change.path), [
      "/custom_fields/changed_at"
    ])
  })

  it("ordered arrays are compared by index, and as a whole if their length changes", () => {
    const same = { ...application, screening_question_answers: [{ answer: 1 }, { answer: 3 }] }
    assert.deepStrictEqual(diff(shape, application, same).map((change) => change.path), [
      "/screening_question_answers/1/answer"
    ])
    const longer = { ...application, screening_question_answers: [] }
    assert.deepStrictEqual(diff(shape, application, longer).map((change) => change.path), [
      "/screening_question_answers"
    ])
  })

  it("ordered_options are compared in order although their members have ids", () => {
    const scale = (ids: ReadonlyArray<string>): JsonObject => ({
      id: "S",
      proficiency_scale: { id: "P", ordered_options: ids.map((id) => ({ id, name: id })) }
    })
    assert.notDeepEqual(diff(processingOf("hris.skill").shape, scale(["a", "b"]), scale(["b", "a"])), [])
  })

  it("all spellings of an instant are equal, and texts that are not times or finer than milliseconds are compared as texts (W9)", () => {
    const equal = (one: string, other: string) => canonical(one, undefined) === canonical(other, undefined)
    const spelled = [
      "2026-03-29T00:30:00Z",
      "2026-03-29T00:30:00.000Z",
      "2026-03-29T02:30:00+02:00",
      "2026-03-28T19:00:00.0-05:30"
    ]
    for (const one of spelled) {
      for (const other of spelled) {
        assert.isTrue(equal(one, other), `${one} ${other}`)
        assert.deepStrictEqual(diff(shape, { starts_at: one }, { starts_at: other }), [])
      }
    }
    for (
      const [one, other] of [
        ["2026-03-29T00:30:00Z", "2026-03-29T00:30:00.001Z"],
        ["2026-03-29T00:30:00Z", "2026-03-29T00:30:00"],
        ["2026-03-29T00:30:00.0000Z", "2026-03-29T00:30:00.0001Z"],
        ["2026-02-30T00:00:00Z", "2026-03-02T00:00:00Z"],
        ["2026-13-01T00:00:00Z", "2026-13-02T00:00:00Z"],
        ["2026-03-29", "2026-03-29T00:00:00Z"]
      ] as const
    ) assert.isFalse(equal(one, other), `${one} ${other}`)
  })

  it("1 and 1.0, and 0 and -0, are equal, and integer-like keys are sorted as text (S4)", () => {
    const one = JSON.parse('{"id":"A","custom_fields":{"10":1.0,"9":-0}}') as JsonObject
    const two = JSON.parse('{"custom_fields":{"9":0,"10":1},"id":"A"}') as JsonObject
    assert.strictEqual(canonicalHash(shape, one), canonicalHash(shape, two))
    assert.deepStrictEqual(diff(shape, one, two), [])
    assert.strictEqual(
      canonical(one, shape),
      '[0,"custom_fields",[0,"10",1,"9",0],"id","A"]'
    )
  })

  it("a change to or from null is recognized, because a scope change looks like that", () => {
    assert.isTrue(touchesNull(diff(shape, application, { ...application, outcome: null })))
    assert.isFalse(touchesNull(diff(shape, application, { ...application, outcome: "HIRED" })))
  })
})
