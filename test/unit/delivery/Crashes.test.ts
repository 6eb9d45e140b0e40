/** Deliveries with which processes end: each process here is taken over from while it runs what never comes to an end. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as CrashIsolation from "../../../src/delivery/engine/CrashIsolation.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { isolateAfterCrashes } from "../../../src/store/Deliveries.ts"
import { limiting, pass } from "./Limiting.ts"
import * as Rig from "./Rig.ts"
import { makeWith } from "./Rig.ts"

/** A handler that notes what it was given and what ran beside it, and never ends for those of `poison`. */
const noting = (poison: ReadonlySet<string>) => {
  const running = new Set<string>()
  const beside: Array<string> = []
  const done: Array<string> = []
  const handle = (recordId: string) =>
    Effect.gen(function*() {
      running.add(recordId)
      for (const other of running) if (other !== recordId) beside.push(`${other} beside ${recordId}`)
      if (poison.has(recordId)) return yield* Effect.never
      yield* Effect.yieldNow
      running.delete(recordId)
      done.push(recordId)
    })
  return { running, beside, done, handle }
}

const turns = (count: number) =>
  Effect.promise(async () => {
    for (let turn = 0; turn < count; turn++) await new Promise((done) => setImmediate(done))
  })

const tag = { model: "ats.tag" } as const

/** The last process is taken over from too: nobody waits for what never ends. */
const taken = <A, E, R>(rig: Rig.Rig, body: Effect.Effect<A, E, R>) =>
  Effect.ensuring(body, Effect.ignore(rig.store.takeOwnership("delivery")))

describe("deliveries with which a process ends", () => {
  it.effect("one is run alone after three deaths and given up after one more; all others are done   (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      yield* taken(
        rig,
        Effect.gen(function*() {
          const seen = noting(new Set(["poison"]))
          const plugin = (name: string) =>
            Plugin.make(name).on("ats.tag.created", {}, ({ recordId }) => seen.handle(recordId)).with({
              from: "oldest"
            })
          for (const id of ["poison", "a", "b"]) yield* rig.append(id, tag)
          const deaths = isolateAfterCrashes + 1
          for (let life = 1; life <= deaths; life++) {
            seen.running.clear()
            seen.beside.length = 0
            yield* rig.start([plugin("p")])
            yield* rig.until(() => seen.running.has("poison"))
            yield* rig.append(`later-${life}`, tag)
            // what is due beside it is done, but in the life in which it is alone
            if (life < deaths) {
              yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1 && row.due === 0)
            } else yield* turns(50)
          }
          assert.deepStrictEqual(seen.beside, [])
          yield* rig.start([plugin("p")])
          yield* rig.dead(1)
          const [letter] = yield* rig.deliveries.deadLetters({ limit: 10 })
          assert.deepStrictEqual([letter?.event?.id, letter?.failure.reason], ["poison", "ProcessEnded"])
          assert.include(letter?.failure.message, `${deaths} times`)
          yield* rig.until(
            () => rig.deliveries.backlog,
            (rows) => rows.every(({ due, running }) => due + running === 0)
          )
          assert.sameMembers([...new Set(seen.done)], ["a", "b", "later-1", "later-2", "later-3", "later-4"])
        })
      )
    }))

  it.effect("one that runs alone does not keep the others waiting while its request waits for its turn   (L21, R1)", () =>
    Effect.gen(function*() {
      const api = limiting(3, 900)
      const rig = yield* makeWith(api)
      yield* taken(
        rig,
        Effect.gen(function*() {
          const seen = noting(new Set())
          let lives = 0
          const plugin = Plugin.make("p")
            .on("ats.application.created", {}, ({ recordId }) =>
              Effect.gen(function*() {
                if (lives <= isolateAfterCrashes) return yield* Effect.never
                const { addResultLink } = yield* Plugin.Api
                yield* addResultLink(recordId, { label: "Result", url: "https://x.example" })
              }))
            .on("ats.tag.created", {}, ({ recordId }) => seen.handle(recordId))
            .with({ from: "oldest" })
          yield* rig.append("a1")
          for (lives = 1; lives <= isolateAfterCrashes; lives++) {
            yield* rig.start([plugin])
            yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1)
            yield* turns(20)
          }
          yield* rig.start([plugin])
          yield* rig.until(() => api.asked.length === 1)
          yield* rig.append("later", tag)
          yield* turns(20)
          assert.deepStrictEqual(seen.done, [])
          // it waits for as long as its time-out says
          yield* pass(40)
          yield* rig.until(() => seen.done.length === 1)
          yield* pass(9_000, 30)
          yield* rig.empty
          assert.deepStrictEqual(api.statuses(), [429, 429, 429, 200])
          assert.deepStrictEqual([...rig.intents], [])
        })
      )
    }))

  it.effect("a process that is stopped in good order accuses none   (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const seen = noting(new Set())
      for (let life = 0; life < 6; life++) {
        const plugin = Plugin.make("p")
          .on("ats.tag.created", { concurrency: 1 }, ({ recordId }) => seen.handle(recordId))
          .with({ from: "oldest" })
        for (let one = 0; one < 5; one++) yield* rig.append(`${life}-${one}`, tag)
        const { stop } = yield* rig.start([plugin])
        yield* rig.until(() => seen.done.length > life * 2)
        yield* stop
        assert.deepStrictEqual((yield* rig.deliveries.backlog).map(({ running }) => running).filter((n) => n > 0), [])
      }
      yield* rig.start([Plugin.make("p").on("ats.tag.created", {}, ({ recordId }) => seen.handle(recordId))])
      yield* rig.empty
      assert.strictEqual(seen.done.length, 30)
    }))

  it.effect("a plugin is switched off with whose third delivery the process ended   (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      yield* taken(
        rig,
        Effect.gen(function*() {
          const ids = ["a", "b", "c", "d", "e", "f"]
          const seen = noting(new Set(ids))
          const plugin = Plugin.make("p")
            .on("ats.tag.created", { concurrency: 2 }, ({ recordId }) => seen.handle(recordId))
            .with({ from: "oldest" })
          for (const id of ids) yield* rig.append(id, tag)
          let deaths = 0
          for (; (yield* rig.deliveries.switchedOff).length === 0; deaths++) {
            if (deaths > 20) return assert.fail("it is not switched off")
            seen.running.clear()
            yield* rig.start([plugin])
            yield* rig.until(
              () => Effect.all([rig.deliveries.switchedOff, Effect.sync(() => seen.running.size)]),
              ([off, running]) => off.length > 0 || running > 0
            )
            // both runners have begun, if two may run
            yield* turns(20)
          }
          assert.isAtMost(deaths, 10)
          assert.deepStrictEqual(yield* rig.deliveries.switchedOff, [{
            _tag: "Plugin",
            plugin: "p",
            integration: null
          }])
          const letters = yield* rig.deliveries.deadLetters({ limit: 10 })
          assert.deepStrictEqual(letters.map(({ failure }) => failure.reason), Array(3).fill("ProcessEnded"))
        })
      )
    }))

  it.effect("of a batch only the one that is to blame is given up, and the deaths are few   (L7, L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      yield* taken(
        rig,
        Effect.gen(function*() {
          const seen = noting(new Set(["c"]))
          const plugin = Plugin.make("p")
            .batch(
              "ats.tag.created",
              { size: 8, within: "1 second" },
              (events) => Effect.forEach(events, ({ recordId }) => seen.handle(recordId), { discard: true })
            )
            .with({ from: "oldest" })
          const ids = ["a", "b", "c", "d", "e", "f", "g", "h"]
          for (const id of ids) yield* rig.append(id, tag)
          const letters = rig.deliveries.deadLetters({ limit: 10 })
          const left = Effect.map(
            rig.deliveries.backlog,
            (rows) => rows.reduce((sum, { due, later, running }) => sum + due + later + running, 0)
          )
          let deaths = 0
          while ((yield* left) > 0 || deaths === 0) {
            if (deaths++ > 20) return assert.fail("it does not come to an end")
            seen.running.clear()
            yield* rig.start([plugin])
            yield* rig.until(
              () => Effect.all([left, Effect.sync(() => seen.running.has("c"))]),
              ([left, poisoned]) => left === 0 || poisoned
            )
          }
          assert.deepStrictEqual((yield* letters).map(({ event, failure }) => [event?.id, failure.reason]), [
            ["c", "ProcessEnded"]
          ])
          assert.sameMembers([...new Set(seen.done)], ids.filter((id) => id !== "c"))
          // four of the whole, and one of each half with it in it: of 4, of 2, of 1
          assert.isAtMost(deaths, 8)
        })
      )
    }))
})

describe("the turn of one that must run alone", () => {
  it("comes once nothing else runs; it is waited for a minute at most, and again ten minutes later   (L21)", () => {
    const alone = CrashIsolation.make()
    const minute = 60_000
    assert.strictEqual(alone.nextMode(0, true), "isolated")
    assert.isTrue(alone.onClaimed(0, "isolated", false, false, true))
    assert.strictEqual(alone.nextMode(0, true), "others")
    // there is one, and something runs
    assert.isFalse(alone.onClaimed(0, "others", true, true, false))
    assert.deepStrictEqual([alone.nextMode(1, false), alone.wakeAt(1)], ["nothing", minute])
    assert.strictEqual(alone.nextMode(minute, false), "others")
    assert.isFalse(alone.onClaimed(minute, "others", true, true, false))
    assert.deepStrictEqual([alone.nextMode(minute + 1, false), alone.wakeAt(minute + 1)], ["others", 11 * minute])
    // nothing runs any more: it need not wait
    assert.isTrue(alone.onClaimed(2 * minute, "others", false, true, true))
    assert.strictEqual(alone.nextMode(2 * minute, true), "isolated")
    assert.isFalse(alone.onClaimed(2 * minute, "isolated", true, false, false))
    assert.strictEqual(alone.nextMode(20 * minute, false), "nothing")
    // between two of them the others have a turn
    assert.strictEqual(alone.nextMode(21 * minute, true), "others")
  })

  it("does not wait for a clock that was set back   (W4, L21)", () => {
    const alone = CrashIsolation.make()
    const day = 86_400_000
    alone.onClaimed(day, "others", true, true, false)
    assert.strictEqual(alone.nextMode(0, false), "others")
    assert.isFalse(alone.onClaimed(0, "others", true, true, false))
    assert.isAtMost(alone.wakeAt(0), 600_000)
  })
})
