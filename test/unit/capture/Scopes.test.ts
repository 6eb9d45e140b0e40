/** Fields that are switched off and on: held as one path, masked, and nothing else waits for them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario } from "./Rig.ts"
import { after, each, filled, hold, named, published, row } from "./Waves.ts"

describe("Scope", () => {
  const off = (rig: Rig, ids: ReadonlyArray<string>) =>
    each(ids, (id) => rig.put(row(id, { ...rig.api.rows.get(id)?.row, title: null, changed_at: undefined })))

  it.effect("C3: a field switched off is one scope hold; approving it publishes the differences", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids.slice(0, 12))
        yield* rig.poll
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
      })))

  it.effect("C3: approved silently, a scope hold publishes nothing, and the records count as they are now shown", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids)
        yield* rig.poll
        yield* rig.approve((yield* hold(rig)).id, { silent: true })
        yield* rig.sweep
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, {})
        assert.deepStrictEqual(yield* published(rig), {})
        yield* rig.wait("1 minute")
        yield* rig.put(row(ids[0]!, { title: "back" }))
        yield* rig.put(row(ids[1]!))
        yield* rig.poll
        assert.deepStrictEqual(yield* published(rig), { updated: 1 })
        assert.strictEqual((yield* after(rig, ids[0]!)).title, "back")
      })))

  it.effect("C3: what was approved silently and comes back as it was is nothing, and waits for nobody", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids)
        yield* rig.poll
        yield* rig.approve((yield* hold(rig)).id, { silent: true })
        yield* rig.wait("1 hour")
        yield* each(ids, (id) => rig.put(row(id)))
        yield* rig.poll
        const { lastPoll } = yield* rig.state
        assert.deepStrictEqual([lastPoll?.rowCounts.equivalent, lastPoll?.rowCounts.pending], [20, 0])
        yield* rig.poll
        assert.strictEqual((yield* rig.state).lastPoll?.rowCounts.unchanged, 20)
        assert.deepStrictEqual(yield* published(rig), {})
      })))

  it.effect("C3: a field inside an array is one path in all records, and comes back without a trace", () =>
    scenario(Effect.fnUntraced(function*(rig) {
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
    })))

  it.effect("C3: first interviews on a part of the records are work; a list filled on nearly all was switched on", () =>
    scenario(Effect.fnUntraced(function*(rig) {
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
      yield* each(ids, (id) => rig.put(row(id, { interviews: [], offers: [{ id: `o-${id}` }] })))
      yield* rig.poll
      // a list that runs empty is what a field switched off may look like
      assert.deepStrictEqual((yield* hold(rig)).paths, ["/interviews", "/offers"])
      assert.deepStrictEqual(yield* published(rig), { updated: 12 })
    })))

  it.effect("C7: a field switched off on Friday, a hire on Saturday: the hire is published with the field as it was", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids.slice(0, 10))
        yield* rig.poll
        yield* rig.wait("1 day")
        // One is known to the hold; the other shows the switched field for the first time.
        for (const id of [ids[0]!, ids[15]!]) yield* rig.put(row(id, { title: null, outcome: "HIRED" }))
        yield* rig.poll
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
      })))

  it.effect("C7: a hire in the very reading that shows the switched field is published at its end", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids)
        yield* rig.put(row(ids[3]!, { title: null, outcome: "HIRED" }))
        yield* rig.poll
        assert.deepStrictEqual(yield* published(rig), { updated: 1 })
        assert.deepStrictEqual((yield* after(rig, ids[3]!)).title, "t-r0003")
        assert.strictEqual((yield* hold(rig)).rows, 20)
      })))

  it.effect("C3: fields switched off one after the other are one hold, which one decision releases", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids)
        yield* rig.poll
        yield* rig.wait("1 hour")
        yield* each(ids, (id) => rig.put(row(id, { title: null, source: null })))
        yield* rig.poll
        yield* rig.sweep
        const [held, ...others] = yield* rig.holds
        assert.deepStrictEqual([held?.paths, held?.rows, others], [["/title", "/source"], 20, []])
        assert.deepStrictEqual(yield* published(rig), {})
        yield* rig.approve(held!.id)
        assert.deepStrictEqual(JSON.parse((yield* rig.events).at(-1)!.changes).length, 2)
        assert.deepStrictEqual(yield* published(rig), { updated: 20 })
      })))

  it.effect("C7: a rejected scope hold goes on masking its paths, listed, until the values are back", () =>
    filled(20, (rig, ids) =>
      Effect.gen(function*() {
        yield* off(rig, ids.slice(0, 10))
        yield* rig.poll
        yield* rig.reject((yield* hold(rig)).id)
        yield* rig.wait("1 day")
        yield* off(rig, ids.slice(10))
        yield* rig.put(row(ids[0]!, { title: null, outcome: "HIRED" }))
        yield* rig.poll
        yield* rig.sweep
        assert.deepStrictEqual(yield* published(rig), { updated: 1 })
        assert.deepStrictEqual((yield* rig.holds).map(({ rows, state }) => [state, rows]), [["rejected", 20]])
        yield* each(ids.slice(1), (id) => rig.put(row(id)))
        yield* rig.put(row(ids[0]!, { outcome: "HIRED" }))
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.holds, [])
        assert.deepStrictEqual(yield* published(rig), { updated: 1 })
        yield* rig.put(row(ids[5]!, { title: null }))
        yield* rig.poll
        assert.deepStrictEqual(yield* published(rig), { updated: 2 })
      })))
})
