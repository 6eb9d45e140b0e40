import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { vanished } from "../../../test/support/capture/Waves.ts"
import { completeTo, movesAfter } from "../../domain/Watermark.ts"
import { Store } from "../../store/Store.ts"
import { poll } from "./Poll.ts"
import { refresh } from "./Refresh.ts"

const minutes = (count: number) => Duration.toMillis(Duration.minutes(count))

const pollFor = (rig: Rig, count: number) =>
  Effect.forEach(Array.from({ length: count }), () => Effect.andThen(rig.wait("1 minute"), rig.poll), { discard: true })

/** A stream that is backfilled and polled. */
const goLive = Effect.fnUntraced(function*(rig: Rig) {
  yield* rig.fill({ id: "zero", title: "x" })
  yield* pollFor(rig, 10)
})

describe("lateness", () => {
  it.effect("a change that becomes visible later than the overlap is found by the sweep, which extends the overlap until polls find the next (W3)", () =>
    scenario(function*(rig) {
      yield* goLive(rig)
      const late = (id: string) =>
        Effect.gen(function*() {
          yield* rig.put({ id, remote_created_at: new Date(start).toISOString() }, { visibleAfter: minutes(12) })
          yield* pollFor(rig, 20)
          const byPolls = yield* rig.kinds(id)
          yield* rig.sweep
          assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
          return byPolls.length
        })
      assert.strictEqual(yield* late("a"), 0)
      const { overlap } = yield* rig.state
      assert.isAbove(overlap, minutes(10))
      assert.isAtMost(overlap, minutes(20))
      assert.strictEqual(yield* late("b"), 1)
      assert.isAtLeast((yield* rig.state).overlap, minutes(20))
      assert.isAtMost((yield* rig.state).overlap, minutes(24))
    }))

  it.effect("`complete_to` does not move after a very late change, until the time that follows from the overlap (W15)", () =>
    scenario(function*(rig) {
      yield* goLive(rig)
      yield* rig.put({ id: "late", remote_created_at: new Date(start).toISOString() }, { visibleAfter: minutes(60) })
      yield* pollFor(rig, 65)
      assert.isNull(movesAfter(yield* rig.state))
      yield* rig.sweep
      const before = completeTo(yield* rig.state)!
      const until = movesAfter(yield* rig.state)!
      let polls = 0
      for (; completeTo(yield* rig.state) === before; polls++) {
        assert.isAtMost((yield* rig.state).previousWatermark!, until)
        yield* pollFor(rig, 1)
      }
      assert.approximately(polls, 11, 2)
      assert.isNull(movesAfter(yield* rig.state))
    }))

  it.effect("the overlap is twice the largest lag that polls saw, and is never reduced (W3)", () =>
    scenario(function*(rig) {
      yield* goLive(rig)
      yield* rig.put({ id: "zero", title: "y" }, { visibleAfter: minutes(4) })
      yield* pollFor(rig, 6)
      const { overlap } = yield* rig.state
      assert.isAbove(overlap, minutes(5))
      assert.isAtMost(overlap, minutes(8))
      yield* rig.put({ id: "zero", title: "z" })
      yield* pollFor(rig, 30)
      assert.strictEqual((yield* rig.state).overlap, overlap)
    }))

  it.effect("a change that polls find because the minimum overlap was raised is not reported as late (W3)", () =>
    scenario(function*(rig) {
      const stream = { ...rig.stream, minOverlap: Duration.minutes(30) }
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => void lines.push(String(message)))
      const pollRaised = Effect.andThen(rig.wait("1 minute"), poll(stream))
      yield* goLive(rig)
      yield* rig.put({ id: "late", remote_created_at: new Date(start).toISOString() }, { visibleAfter: minutes(12) })
      yield* Effect.repeat(pollRaised, { times: 14 }).pipe(Effect.provide(Logger.layer([logger])))
      assert.deepStrictEqual(yield* rig.kinds("late"), ["created 1"])
      assert.deepStrictEqual(lines.filter((line) => line.includes("late change")), [])
      // `complete_to` is as far behind as the stream is late
      assert.approximately((yield* rig.state).overlap, minutes(23), minutes(2))
    }))

  it.effect("a nested change on a record unchanged for a year does not extend the overlap, whether a sweep or a poll finds it (W13)", () =>
    scenario(function*(rig) {
      const tagged = (name: string) => ({
        id: "a",
        changed_at: "2025-03-01T00:00:00.000Z",
        candidate: { id: "c", tags: [{ id: "t", name }] }
      })
      yield* rig.put(tagged("one"))
      yield* goLive(rig)
      const { overlap } = yield* rig.state
      yield* rig.put(tagged("two"), { silent: true })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put(tagged("three"))
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2", "updated 3"])
      assert.strictEqual((yield* rig.state).overlap, overlap)
    }))

  it.effect("a held change that is read again hours later does not count as late (W3, C3)", () =>
    scenario(function*(rig) {
      const ids = ["a", "b", "c", "d", "e", "f"]
      for (const id of ids) yield* rig.put({ id, title: "x" })
      yield* goLive(rig)
      yield* rig.change(...ids.map((id) => ({ id, title: null })))
      assert.strictEqual((yield* rig.pending)["a"], "held")
      yield* pollFor(rig, 120)
      const store = yield* Store
      yield* store.transact(rig.stream.owner, rig.stream.key, (tx) => tx.markStale(["a"]))
      yield* refresh(rig.stream, Effect.succeed(false))
      assert.strictEqual((yield* rig.state).overlap, minutes(5))
    }))

  it.effect("an old record found late does not extend the overlap (W13, B1)", () =>
    scenario(function*(rig) {
      yield* goLive(rig)
      yield* rig.fill({ id: "old", changed_at: "2025-03-01T00:00:00.000Z" })
      assert.strictEqual((yield* rig.state).overlap, minutes(5))
    }))

  it.effect("a change of an absent record that is seen when the record comes back does not extend the overlap (W3, D9)", () =>
    scenario(function*(rig) {
      for (let i = 0; i < 10; i++) yield* rig.put({ id: `control ${i}` })
      yield* rig.put({ id: "r", title: "x" })
      yield* goLive(rig)
      yield* vanished(rig, ["r"])
      yield* rig.put({ id: "r", title: "edited" })
      const edited = rig.api.rows.get("r")!
      rig.api.vanish("r")
      yield* pollFor(rig, 30)
      rig.api.rows.set("r", edited)
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.kinds("r"), ["created 1", "deleted 2", "created 3"])
      assert.strictEqual((yield* rig.state).overlap, minutes(5))
    }))

  it.effect("a change that shifting pages hid from the first poll after days of downtime does not count as days late (W6)", () =>
    scenario(function*(rig) {
      yield* goLive(rig)
      yield* rig.wait("1 day")
      yield* rig.put({ id: "zero", title: "y" })
      yield* rig.wait("2 days")
      rig.api.intercept = (_, answer) => ({ ...answer, results: [] })
      yield* rig.poll
      rig.api.intercept = (_, answer) => answer
      yield* rig.wait("1 minute")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("zero"), ["created 1", "updated 2"])
      assert.isAtMost((yield* rig.state).overlap, minutes(20))
    }))

  it.effect("a change that a poll of a moving list skipped does not extend the overlap (W6, P1)", () =>
    scenario(function*(rig) {
      yield* goLive(rig)
      yield* rig.wait("1 day")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, remote_created_at: new Date(start).toISOString() })
      yield* rig.wait("1 hour")
      rig.api.pageSize = 2
      // a, b | c becomes b, c, a
      rig.api.meanwhile = ({ cursor }) => {
        if (cursor !== "2") return
        rig.api.vanish("a")
        rig.api.put(start + minutes(10 + 25 * 60), { id: "a", title: "moved" })
      }
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("c"), [])
      rig.api.meanwhile = () => {}
      yield* pollFor(rig, 1)
      assert.deepStrictEqual(yield* rig.kinds("c"), ["created 1"])
      assert.strictEqual((yield* rig.state).overlap, minutes(5))
    }))
})
