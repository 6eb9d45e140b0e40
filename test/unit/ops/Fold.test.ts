import { assert, describe, it } from "@effect/vitest"
import type { FeedEvent } from "../../../src/cli/ApiClient.ts"
import { findDifferences, Fold } from "../../../src/cli/demo/ConsistencyCheck.ts"

const event = (version: number, kind: "created" | "updated" | "deleted", after: unknown, id = "1"): FeedEvent => ({
  position: `p-1-${version}`,
  data: {
    integration: "greenhouse:acme",
    model: "ats.tag",
    id,
    generation: 1,
    version,
    kind,
    origin: "poll",
    before: null,
    after,
    changes: [],
    transitions: [],
    reason: null,
    restored: false,
    changed_at: null,
    detected_at: "2026-01-01T00:00:00.000Z"
  }
})

const stream = "greenhouse:acme/ats.tag"
const folded = (...events: ReadonlyArray<FeedEvent>) => {
  const fold = new Fold()
  for (const each of events) fold.add(each)
  return fold
}
const against = (
  events: ReadonlyArray<FeedEvent>,
  truth: Record<string, unknown>,
  pending: ReadonlyArray<string> = []
) =>
  findDifferences(
    folded(...events).records,
    new Map([[stream, new Map(Object.entries(truth))]]),
    (_, id) => pending.includes(id)
  )
    .map(({ id, why }) => `${id} ${why}`)

describe("Fold", () => {
  it("what the events leave behind equals the world", () => {
    const events = [event(1, "created", { id: "1", name: "a" }), event(2, "updated", { id: "1", name: "b" })]
    assert.deepStrictEqual(against(events, { 1: { id: "1", name: "b" } }), [])
    assert.deepStrictEqual(against([...events, event(3, "deleted", null)], {}), [])
  })

  it("volatile fields, remote data at any depth and the order of arrays do not count", () => {
    const ours = {
      id: "1",
      changed_at: "x",
      remote_data: null,
      job: { remote_data: null },
      tags: [{ id: "a" }, { id: "b" }]
    }
    const theirs = {
      tags: [{ id: "b" }, { id: "a" }],
      id: "1",
      changed_at: "y",
      remote_data: { a: 1 },
      job: { remote_data: { b: 1 } }
    }
    assert.deepStrictEqual(against([event(1, "created", ours)], { 1: theirs }), [])
  })

  it("the order of ordered_options counts", () => {
    const options = (...ids: ReadonlyArray<string>) => ({ ordered_options: ids.map((id) => ({ id })) })
    assert.deepStrictEqual(against([event(1, "created", options("a", "b"))], { 1: options("b", "a") }), [
      "1 differs in ordered_options"
    ])
  })

  it("a lost update, a lost create and a lost delete are each found, without telling values", () => {
    const found = against([event(1, "created", { name: "secret" }, "1"), event(1, "created", {}, "2")], {
      1: { name: "other" },
      3: {}
    })
    assert.deepStrictEqual(found, [
      "1 differs in name",
      "2 the events say it exists, the world has it not",
      "3 the world has it, no event told of it"
    ])
  })

  it("what is listed as pending is left out", () => {
    assert.deepStrictEqual(against([event(1, "created", {}, "2")], {}, ["2"]), [])
  })

  it("I3, I4: versions with a gap and kinds out of turn are told", () => {
    const fold = folded(event(1, "created", {}), event(3, "updated", {}), event(4, "created", {}))
    assert.deepStrictEqual(fold.violations.map(({ why }) => why), [
      "version 3 came where 2 was due",
      `"created" came for a record that is there`
    ])
  })
})
