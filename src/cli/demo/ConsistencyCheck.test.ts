import { assert, describe, it } from "@effect/vitest"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import type { FeedEvent } from "../client/ApiClient.ts"
import { findDifferences, Fold, sizeOf, truthOf } from "./ConsistencyCheck.ts"

const event = (
  version: number,
  kind: "created" | "updated" | "deleted",
  after: FeedEvent["data"]["after"],
  id = "1"
): FeedEvent => ({
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
  it("the folded events equal the world", () => {
    const events = [event(1, "created", { id: "1", name: "a" }), event(2, "updated", { id: "1", name: "b" })]
    assert.deepStrictEqual(against(events, { 1: { id: "1", name: "b" } }), [])
    assert.deepStrictEqual(against([...events, event(3, "deleted", null)], {}), [])
  })

  it("volatile fields, remote data at any depth and the order of arrays are ignored", () => {
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

  it("the order of ordered_options is compared", () => {
    const options = (...ids: ReadonlyArray<string>) => ({ ordered_options: ids.map((id) => ({ id })) })
    assert.deepStrictEqual(against([event(1, "created", options("a", "b"))], { 1: options("b", "a") }), [
      "1 differs in ordered_options"
    ])
  })

  it("a lost update, a lost create and a lost delete are each found, without showing values", () => {
    const found = against([event(1, "created", { name: "secret" }, "1"), event(1, "created", {}, "2")], {
      1: { name: "other" },
      3: {}
    })
    assert.deepStrictEqual(found, [
      "1 differs in name",
      "2 exists according to the events, but not in the world",
      "3 exists in the world, but no event reports it"
    ])
  })

  it("pending records are left out", () => {
    assert.deepStrictEqual(against([event(1, "created", {}, "2")], {}, ["2"]), [])
  })

  it("versions with a gap and kinds in a wrong order are violations (I3, I4)", () => {
    const fold = folded(event(1, "created", {}), event(3, "updated", {}), event(4, "created", {}))
    assert.deepStrictEqual(fold.violations.map(({ why }) => why), [
      "expected version 2, got version 3",
      `got "created" for a record that already exists`
    ])
  })

  it("the events must also reproduce the records of a defined list", () => {
    const world = {
      integrations: [{ id: "workday:acme" }],
      truth: (_: string, model: string) =>
        new Map<string, unknown>(model === "hris.employee" ? [["1", { id: "1" }]] : []),
      mutations: {}
    }
    const models = withLists([defineList("hris.employee", { path: "/hris/employees" })])
    assert.strictEqual(sizeOf(truthOf(world, builtInModels)), 0)
    assert.deepStrictEqual(findDifferences(new Map(), truthOf(world, models), () => false), [
      { stream: "workday:acme/hris.employee", id: "1", why: "exists in the world, but no event reports it" }
    ])
  })
})
