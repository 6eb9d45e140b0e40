/** Fields that are switched off and on: they are held as one path and masked, and other changes are published. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario } from "../../../test/support/capture/Rig.ts"
import { after, each, filled, hold, named, published, row } from "../../../test/support/capture/Waves.ts"

describe("Scope", () => {
  const off = (rig: Rig, ids: ReadonlyArray<string>) =>
    each(ids, (id) => rig.put(row(id, { ...rig.api.rows.get(id)?.row, title: null, changed_at: undefined })))
  const switchedOff = (rig: Rig, ids: ReadonlyArray<string>) => Effect.andThen(off(rig, ids), rig.poll)

  it.effect("a field that is switched off gives one scope hold, and approving it publishes the differences (C3)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids.slice(0, 12))
      assert.deepStrictEqual(yield* published(rig), {})
      const held = yield* hold(rig)
      assert.deepStrictEqual([held.kind, held.paths, held.rows], ["scope", ["/title"], 12])
      yield* rig.approve(held.id)
      assert.deepStrictEqual(yield* published(rig), { updated: 12 })
      assert.deepStrictEqual(JSON.parse((yield* rig.events).at(-1)!.changes), [
        { path: "/title", before: "t-r0011", after: null }
      ])
      yield* rig.sweep
      assert.deepStrictEqual(yield* published(rig), { updated: 12 })
    }))

  it.effect("the reason of a scope hold has the current number of records (D6)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids.slice(0, 12))
      assert.strictEqual((yield* hold(rig)).reason, "12 of 20 records lose title")
      yield* rig.wait("1 minute")
      yield* switchedOff(rig, ids.slice(12, 14))
      assert.strictEqual((yield* hold(rig)).reason, "14 of 20 records lose title")
      yield* rig.wait("1 minute")
      yield* rig.change(...ids.slice(2, 14).map((id) => row(id)))
      assert.strictEqual((yield* hold(rig)).reason, "2 of 20 records lose title, fewer than the limits now")
      yield* rig.wait("1 minute")
      yield* switchedOff(rig, ids.slice(2, 8))
      assert.strictEqual((yield* hold(rig)).reason, "8 of 20 records lose title")
    }))

  it.effect("a scope hold that is approved silently publishes nothing, and the current content counts as published (C3)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids)
      yield* rig.approve((yield* hold(rig)).id, { silent: true })
      yield* rig.sweep
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* published(rig), {})
      yield* rig.wait("1 minute")
      yield* rig.change(row(ids[0]!, { title: "back" }), row(ids[1]!))
      assert.deepStrictEqual(yield* published(rig), { updated: 1 })
      assert.strictEqual((yield* after(rig, ids[0]!)).title, "back")
    }))

  it.effect("a field that returns unchanged after a silent approval is neither published nor held (C3)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids)
      yield* rig.approve((yield* hold(rig)).id, { silent: true })
      yield* rig.wait("1 hour")
      yield* rig.change(...ids.map((id) => row(id)))
      const { lastPoll } = yield* rig.state
      assert.deepStrictEqual([lastPoll?.rowCounts.equivalent, lastPoll?.rowCounts.pending], [20, 0])
      yield* rig.poll
      assert.strictEqual((yield* rig.state).lastPoll?.rowCounts.unchanged, 20)
      assert.deepStrictEqual(yield* published(rig), {})
    }))

  it.effect("a field inside an array is one path in all records, and its return publishes nothing (C3)", () =>
    scenario(function*(rig) {
      const ids = named(0, 10)
      const shown = (name: string | null) =>
        each(ids, (id) => rig.put(row(id, { interviews: [{ id: `i-${id}`, title: name, round: 1 }] })))
      yield* shown("Talk")
      yield* rig.sweep
      yield* rig.wait("1 hour")
      yield* shown(null)
      yield* rig.poll
      assert.deepStrictEqual((yield* hold(rig)).paths, ["/interviews/*/title"])
      yield* shown("Talk")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.holds, [])
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* published(rig), {})
    }))

  it.effect("first interviews on a part of the records are published, and a list filled on nearly all records is held (C3)", () =>
    scenario(function*(rig) {
      const ids = named(0, 14)
      const invite = (some: ReadonlyArray<string>) =>
        each(some, (id) => rig.put(row(id, { interviews: [{ id: `i-${id}`, title: "Talk" }] })))
      yield* each(ids, (id) => rig.put(row(id, { interviews: [], offers: [] })))
      yield* rig.sweep
      yield* rig.wait("1 hour")
      yield* invite(ids.slice(0, 12))
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.holds, [])
      assert.deepStrictEqual(yield* published(rig), { updated: 12 })
      yield* rig.wait("1 hour")
      yield* rig.change(...ids.map((id) => row(id, { interviews: [], offers: [{ id: `o-${id}` }] })))
      // a field that is switched off may look like a list that becomes empty
      assert.deepStrictEqual((yield* hold(rig)).paths, ["/interviews", "/offers"])
      assert.deepStrictEqual(yield* published(rig), { updated: 12 })
    }))

  it.effect("a hire after a field was switched off is published with the field's old value (C7)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids.slice(0, 10))
      yield* rig.wait("1 day")
      // One record is already in the hold; the other shows the switched-off field for the first time.
      yield* rig.change(...[ids[0]!, ids[15]!].map((id) => row(id, { title: null, outcome: "HIRED" })))
      for (const id of [ids[0]!, ids[15]!]) {
        const event = (yield* rig.events).findLast((entry) => entry.id === id)!
        assert.deepStrictEqual(JSON.parse(event.changes), [{ path: "/outcome", before: "PENDING", after: "HIRED" }])
        assert.deepStrictEqual(JSON.parse(event.transitions)[0].name, "hired")
        assert.strictEqual(JSON.parse(event.after!).title, `t-${id}`)
      }
      assert.strictEqual((yield* hold(rig)).rows, 11)
      yield* rig.approve((yield* hold(rig)).id)
      const event = (yield* rig.events).findLast((entry) => entry.id === ids[15])!
      assert.deepStrictEqual([event.version, JSON.parse(event.after!).outcome], [3, "HIRED"])
      assert.deepStrictEqual(JSON.parse(event.changes), [{ path: "/title", before: "t-r0015", after: null }])
    }))

  it.effect("a hire in the run that finds the switched-off field is published at the end of the run (C7)", () =>
    filled(20, function*(rig, ids) {
      yield* off(rig, ids)
      yield* rig.change(row(ids[3]!, { title: null, outcome: "HIRED" }))
      assert.deepStrictEqual(yield* published(rig), { updated: 1 })
      assert.deepStrictEqual((yield* after(rig, ids[3]!)).title, "t-r0003")
      assert.strictEqual((yield* hold(rig)).rows, 20)
    }))

  it.effect("fields that are switched off one after another are one hold, which one decision releases (C3)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids)
      yield* rig.wait("1 hour")
      yield* rig.change(...ids.map((id) => row(id, { title: null, source: null })))
      yield* rig.sweep
      const [held, ...others] = yield* rig.holds
      assert.deepStrictEqual([held?.paths, held?.rows, others], [["/title", "/source"], 20, []])
      assert.deepStrictEqual(yield* published(rig), {})
      yield* rig.approve(held!.id)
      assert.deepStrictEqual(JSON.parse((yield* rig.events).at(-1)!.changes).length, 2)
      assert.deepStrictEqual(yield* published(rig), { updated: 20 })
    }))

  it.effect("a rejected scope hold stays listed and masks its paths until the values return (C7)", () =>
    filled(20, function*(rig, ids) {
      yield* switchedOff(rig, ids.slice(0, 10))
      yield* rig.reject((yield* hold(rig)).id)
      yield* rig.wait("1 day")
      yield* off(rig, ids.slice(10))
      yield* rig.change(row(ids[0]!, { title: null, outcome: "HIRED" }))
      yield* rig.sweep
      assert.deepStrictEqual(yield* published(rig), { updated: 1 })
      assert.deepStrictEqual((yield* rig.holds).map(({ rows, state }) => [state, rows]), [["rejected", 20]])
      yield* each(ids.slice(1), (id) => rig.put(row(id)))
      yield* rig.change(row(ids[0]!, { outcome: "HIRED" }))
      assert.deepStrictEqual(yield* rig.holds, [])
      assert.deepStrictEqual(yield* published(rig), { updated: 1 })
      yield* rig.change(row(ids[5]!, { title: null }))
      assert.deepStrictEqual(yield* published(rig), { updated: 2 })
    }))

  it.effect("a record that a small hold passes on to a rejected hold can be approved there (C7, C8, world 991105697)", () =>
    filled(20, function*(rig, ids) {
      const [first] = ids
      yield* switchedOff(rig, ids.slice(0, 7))
      const rejected = (yield* hold(rig)).id
      yield* rig.reject(rejected)
      yield* rig.wait("1 hour")
      yield* each(ids.slice(2), (id) => rig.put(row(id, { source: null })))
      yield* rig.change(row(first!, { title: null, source: null }))
      const rowsByState = Effect.map(rig.holds, (holds) => holds.map(({ rows, state }) => [state, rows]))
      assert.deepStrictEqual(yield* rowsByState, [["open", 19], ["rejected", 1]])
      yield* rig.wait("1 hour")
      yield* each(ids.slice(1), (id) => rig.put(row(id)))
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { [first!]: "rejected" })
      assert.deepStrictEqual(yield* rowsByState, [["rejected", 1]])
      const { source, title } = yield* after(rig, first!)
      assert.deepStrictEqual([title, source], ["t-r0000", null])
      yield* rig.approve(rejected)
      assert.deepStrictEqual([(yield* after(rig, first!)).title, yield* rig.pending], [null, {}])
    }))
})
