/** Deliveries that end their process. Each process here is replaced while it runs a handler that never ends. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { limiting, pass } from "../../../test/support/delivery/Limiting.ts"
import * as Rig from "../../../test/support/delivery/Rig.ts"
import { makeWith } from "../../../test/support/delivery/Rig.ts"
import { deliveryScopes } from "../../domain/Shard.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { isolateAfterCrashes } from "../../store/Delivery.ts"
import * as CrashIsolation from "./CrashIsolation.ts"

/** A handler that records its deliveries and which ones ran concurrently. It never ends for the records of `poison`. */
const recordingHandler = (poison: ReadonlySet<string>) => {
  const running = new Set<string>()
  const concurrent: Array<string> = []
  const done: Array<string> = []
  const handle = (recordId: string) =>
    Effect.gen(function*() {
      running.add(recordId)
      for (const other of running) if (other !== recordId) concurrent.push(`${other} with ${recordId}`)
      if (poison.has(recordId)) return yield* Effect.never
      yield* Effect.yieldNow
      running.delete(recordId)
      done.push(recordId)
    })
  return { running, concurrent, done, handle }
}

const waitTurns = (count: number) =>
  Effect.promise(async () => {
    for (let turn = 0; turn < count; turn++) await new Promise((done) => setImmediate(done))
  })

const tag = { model: "ats.tag" } as const

/** Replaces the last process too, so that the test does not wait for a handler that never ends. */
const takenOver = <A, E, R>(rig: Rig.Rig, body: Effect.Effect<A, E, R>) =>
  Effect.ensuring(body, Effect.ignore(rig.store.takeOwnerships(deliveryScopes)))

describe("deliveries that end their process", () => {
  it.effect("a delivery runs isolated after three process ends and is dead after a fourth; others continue (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      yield* takenOver(
        rig,
        Effect.gen(function*() {
          const handler = recordingHandler(new Set(["poison"]))
          const plugin = (name: string) =>
            Plugin.make(name).on("ats.tag.created", {}, ({ recordId }) => handler.handle(recordId)).with({
              from: "oldest"
            })
          for (const id of ["poison", "a", "b"]) yield* rig.append(id, tag)
          const deaths = isolateAfterCrashes + 1
          for (let life = 1; life <= deaths; life++) {
            handler.running.clear()
            handler.concurrent.length = 0
            yield* rig.start([plugin("p")])
            yield* rig.until(() => handler.running.has("poison"))
            yield* rig.append(`later-${life}`, tag)
            // other due deliveries are done, except in the process in which the poison delivery runs isolated
            if (life < deaths) {
              yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1 && row.due === 0)
            } else yield* waitTurns(50)
          }
          assert.deepStrictEqual(handler.concurrent, [])
          yield* rig.start([plugin("p")])
          yield* rig.dead(1)
          const [letter] = yield* rig.deliveries.deadLetters({ limit: 10 })
          assert.deepStrictEqual([letter?.event?.id, letter?.failure.reason], ["poison", "ProcessEnded"])
          assert.include(letter?.failure.message, `${deaths} times`)
          yield* rig.until(
            () => rig.deliveries.backlog,
            (rows) => rows.every(({ due, running }) => due + running === 0)
          )
          assert.sameMembers([...new Set(handler.done)], ["a", "b", "later-1", "later-2", "later-3", "later-4"])
        })
      )
    }))

  it.effect("an isolated delivery does not delay the others while it waits for a request slot (L21, R1)", () =>
    Effect.gen(function*() {
      const api = limiting(3, 900)
      const rig = yield* makeWith(api)
      yield* takenOver(
        rig,
        Effect.gen(function*() {
          const handler = recordingHandler(new Set())
          let lives = 0
          const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } })
            .on("ats.application.created", {}, ({ recordId }) =>
              Effect.gen(function*() {
                if (lives <= isolateAfterCrashes) return yield* Effect.never
                const { addResultLink } = yield* Plugin.Api
                yield* addResultLink(recordId, { label: "Result", url: "https://x.example" })
              }))
            .on("ats.tag.created", {}, ({ recordId }) => handler.handle(recordId))
            .with({ from: "oldest" })
          yield* rig.append("a1")
          for (lives = 1; lives <= isolateAfterCrashes; lives++) {
            yield* rig.start([plugin])
            yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 1)
            yield* waitTurns(20)
          }
          yield* rig.start([plugin])
          yield* rig.until(() => api.requests.length === 1)
          yield* rig.append("later", tag)
          yield* waitTurns(20)
          assert.deepStrictEqual(handler.done, [])
          // it waits until its time-out has passed
          yield* pass(40)
          yield* rig.until(() => handler.done.length === 1)
          yield* pass(9_000, 30)
          yield* rig.empty
          assert.deepStrictEqual(api.statuses(), [429, 429, 429, 200])
          assert.deepStrictEqual([...rig.intents], [])
        })
      )
    }))

  it.effect("a process that loses its shards while an isolated delivery waits for the others does not run in circles (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const running = new Set<string>()
      let lives = 1
      const plugin = Plugin.make("p").on("ats.tag.created", {}, ({ recordId }) => {
        running.add(recordId)
        return recordId === "poison" && lives > isolateAfterCrashes
          ? Effect.fail(new Plugin.Transient({ message: "not yet" }))
          : Effect.never
      }).with({ from: "oldest" })
      yield* rig.append("poison", tag)
      for (; lives <= isolateAfterCrashes; lives++) {
        running.clear()
        yield* rig.start([plugin])
        yield* rig.until(() => running.has("poison"))
      }
      running.clear()
      yield* rig.start([plugin])
      yield* rig.until(() => running.has("poison"))
      yield* rig.append("slow", tag)
      yield* rig.until(() => running.has("slow"))
      yield* pass(2)
      yield* rig.store.takeOwnerships(deliveryScopes)
      // the process notices it with the next event
      yield* rig.append("later", tag)
      yield* pass(70)
      const checks = rig.commandChecks
      yield* waitTurns(200)
      assert.isAtMost(rig.commandChecks - checks, 4)
    }))

  it.effect("a graceful stop of the process counts against no delivery (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const handler = recordingHandler(new Set())
      for (let life = 0; life < 6; life++) {
        const plugin = Plugin.make("p")
          .on("ats.tag.created", { concurrency: 1 }, ({ recordId }) => handler.handle(recordId))
          .with({ from: "oldest" })
        for (let one = 0; one < 5; one++) yield* rig.append(`${life}-${one}`, tag)
        const { stop } = yield* rig.start([plugin])
        yield* rig.until(() => handler.done.length > life * 2)
        yield* stop
        assert.deepStrictEqual((yield* rig.deliveries.backlog).map(({ running }) => running).filter((n) => n > 0), [])
      }
      yield* rig.start([Plugin.make("p").on("ats.tag.created", {}, ({ recordId }) => handler.handle(recordId))])
      yield* rig.empty
      assert.strictEqual(handler.done.length, 30)
    }))

  it.effect("a plugin is switched off after three of its deliveries have ended the process (L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      yield* takenOver(
        rig,
        Effect.gen(function*() {
          const ids = ["a", "b", "c", "d", "e", "f"]
          const handler = recordingHandler(new Set(ids))
          const plugin = Plugin.make("p")
            .on("ats.tag.created", { concurrency: 2 }, ({ recordId }) => handler.handle(recordId))
            .with({ from: "oldest" })
          for (const id of ids) yield* rig.append(id, tag)
          let deaths = 0
          for (; (yield* rig.deliveries.switchedOff).length === 0; deaths++) {
            if (deaths > 20) return assert.fail("the plugin is not switched off")
            handler.running.clear()
            yield* rig.start([plugin])
            yield* rig.until(
              () => Effect.all([rig.deliveries.switchedOff, Effect.sync(() => handler.running.size)]),
              ([off, running]) => off.length > 0 || running > 0
            )
            // let both runners start, if two may run
            yield* waitTurns(20)
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

  it.effect("only the batch event that ends the process becomes a dead letter, after few ends (L7, L21)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      yield* takenOver(
        rig,
        Effect.gen(function*() {
          const handler = recordingHandler(new Set(["c"]))
          const plugin = Plugin.make("p")
            .batch(
              "ats.tag.created",
              { size: 8, within: "1 second" },
              (events) => Effect.forEach(events, ({ recordId }) => handler.handle(recordId), { discard: true })
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
            if (deaths++ > 20) return assert.fail("deliveries are left after 20 process ends")
            handler.running.clear()
            yield* rig.start([plugin])
            yield* rig.until(
              () => Effect.all([left, Effect.sync(() => handler.running.has("c"))]),
              ([left, poisoned]) => left === 0 || poisoned
            )
          }
          assert.deepStrictEqual((yield* letters).map(({ event, failure }) => [event?.id, failure.reason]), [
            ["c", "ProcessEnded"]
          ])
          assert.sameMembers([...new Set(handler.done)], ids.filter((id) => id !== "c"))
          // four with the whole batch, and one with each half that contains it: of 4, of 2, of 1
          assert.isAtMost(deaths, 8)
        })
      )
    }))
})

describe("crash isolation", () => {
  it("an isolated delivery waits a minute for the others, and again ten minutes later (L21)", () => {
    const isolation = CrashIsolation.make()
    const minute = 60_000
    assert.strictEqual(isolation.nextMode(0, true), "isolated")
    assert.isTrue(isolation.onClaimed(0, "isolated", false, false, true))
    assert.strictEqual(isolation.nextMode(0, true), "others")
    // an isolated delivery is due, and another attempt runs
    assert.isFalse(isolation.onClaimed(0, "others", true, true, false))
    assert.deepStrictEqual([isolation.nextMode(1, false), isolation.wakeAt(1)], ["nothing", minute])
    assert.strictEqual(isolation.nextMode(minute, false), "others")
    assert.isFalse(isolation.onClaimed(minute, "others", true, true, false))
    assert.deepStrictEqual([isolation.nextMode(minute + 1, false), isolation.wakeAt(minute + 1)], [
      "others",
      11 * minute
    ])
    // no attempt runs, so it need not wait
    assert.isTrue(isolation.onClaimed(2 * minute, "others", false, true, true))
    assert.strictEqual(isolation.nextMode(2 * minute, true), "isolated")
    assert.isFalse(isolation.onClaimed(2 * minute, "isolated", true, false, false))
    assert.strictEqual(isolation.nextMode(20 * minute, false), "nothing")
    // the others run between two isolated deliveries
    assert.strictEqual(isolation.nextMode(21 * minute, true), "others")
  })

  it("isolation does not wait for a clock that was set back (W4, L21)", () => {
    const isolation = CrashIsolation.make()
    const day = 86_400_000
    isolation.onClaimed(day, "others", true, true, false)
    assert.strictEqual(isolation.nextMode(0, false), "others")
    assert.isFalse(isolation.onClaimed(0, "others", true, true, false))
    assert.isAtMost(isolation.wakeAt(0), 600_000)
  })
})
