/** Several engines over one store, each in a process of its own. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import {
  compute,
  other,
  pair,
  scopeOf,
  trigger,
  useWatchdogClocks
} from "../../../test/support/delivery/ProcessPair.ts"
import { acme, recorder, unavailable } from "../../../test/support/delivery/Rig.ts"
import { deliveryScopes, dispatchScope } from "../../domain/Shard.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { isolateAfterCrashes } from "../../store/Delivery.ts"

useWatchdogClocks()

/** A handler that records what it receives. */
const receiving = () => {
  const { note, received } = recorder()
  const plugin = Plugin.make("p").with({ from: "oldest" }).on(trigger, {}, ({ recordId }) => note(recordId))
  return { plugin, received }
}

describe("deliveries in two processes", () => {
  it.effect("each process runs the deliveries of its shards, and one of them creates all", () =>
    Effect.gen(function*() {
      const { plugin, received } = receiving()
      const { first, passTime, rig, second } = yield* pair(plugin)
      assert.deepStrictEqual(
        [yield* first.status, yield* second.status].map(({ dispatches, shards, state }) => [state, dispatches, shards]),
        [["running", true, 63], ["running", false, 1]]
      )
      for (let n = 0; n < 5; n++) {
        yield* rig.append(`a${n}`)
        yield* rig.append(`b${n}`, { integration: other })
      }
      yield* passTime(2)
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["a", "b"].flatMap((id) => [0, 1, 2, 3, 4].map((n) => `${id}${n}`)))
    }))

  it.effect("no more attempts of a handler run in both together than its concurrency, and both take part", () =>
    Effect.gen(function*() {
      const running = new Set<string>()
      const done = new Map<string, number>()
      let most = 0
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        trigger,
        { concurrency: 1 },
        ({ integration, recordId }) =>
          Effect.gen(function*() {
            running.add(integration + recordId)
            most = Math.max(most, running.size)
            yield* Effect.sleep("2 seconds")
            running.delete(integration + recordId)
            done.set(integration, (done.get(integration) ?? 0) + 1)
          })
      )
      const { move, passTime, rig } = yield* pair(plugin, (rig) =>
        Effect.gen(function*() {
          for (let n = 0; n < 12; n++) {
            yield* rig.append(`a${n}`)
            yield* rig.append(`b${n}`, { integration: other })
          }
          // a process that owns all shards claims more than it starts
          yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.running === 12)
        }))
      yield* passTime(18)
      assert.isAbove(done.get(acme) ?? 0, 0)
      assert.isAbove(done.get(other) ?? 0, 0)
      yield* move(acme, 2)
      yield* passTime(8)
      yield* move(acme, 1)
      yield* passTime(40)
      yield* rig.empty
      assert.strictEqual(most, 1)
      assert.deepStrictEqual([done.get(acme), done.get(other)], [12, 12])
    }))

  it.effect("an attempt has a moment to end when its shard moves, and is then repeated by the next process (L21)", () =>
    Effect.gen(function*() {
      const started: Array<string> = []
      const ended: Array<string> = []
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        trigger,
        {},
        ({ recordId }) =>
          Effect.gen(function*() {
            started.push(recordId)
            yield* Effect.sleep(recordId === "short" ? "1 second" : "10 seconds")
            ended.push(recordId)
          })
      )
      const { move, passTime, rig } = yield* pair(plugin)
      yield* rig.append("short")
      yield* rig.append("long")
      yield* rig.until(() => started.length === 2)
      yield* move(acme, 2)
      yield* passTime(3)
      assert.deepStrictEqual([started, ended], [["short", "long", "long"], ["short"]])
      yield* passTime(11)
      assert.deepStrictEqual(ended, ["short", "long"])
      yield* rig.empty
    }))

  it.effect("a shard that another process took late goes back to the process in which it is placed (I10)", () =>
    Effect.gen(function*() {
      const { plugin, received } = receiving()
      const { passTime, rig } = yield* pair(plugin)
      yield* rig.store.takeOwnerships([scopeOf(acme)])
      yield* rig.append("a1")
      yield* passTime(5)
      assert.deepStrictEqual(received, [])
      yield* passTime(6)
      assert.deepStrictEqual(received, ["a1"])
      yield* rig.empty
    }))

  it.effect("processes that lost all shards to one that is not of the fleet take them back (I10, X9)", () => {
    const logged: Array<string> = []
    return Effect.gen(function*() {
      const { plugin, received } = receiving()
      const { first, passTime, rig, second } = yield* pair(plugin)
      yield* rig.store.takeOwnerships([dispatchScope, ...deliveryScopes])
      yield* rig.append("a1")
      yield* rig.append("b1", { integration: other })
      yield* passTime(8)
      assert.deepStrictEqual(received, [])
      const states = Effect.all([first.status, second.status]).pipe(Effect.map((all) => all.map(({ state }) => state)))
      assert.deepStrictEqual(yield* states, ["stopped", "stopped"])
      yield* passTime(4)
      assert.deepStrictEqual(received.toSorted(), ["a1", "b1"])
      assert.deepStrictEqual(yield* states, ["running", "running"])
      assert.lengthOf(logged.filter((line) => line === "delivering again"), 2)
      yield* rig.empty
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])))
  })

  it.effect("a process whose shards leave and return while its database is slow delivers them again (X9, X10)", () =>
    Effect.gen(function*() {
      const { plugin, received } = receiving()
      const { first, passTime, placement, rig } = yield* pair(plugin)
      const answers = yield* Latch.make(false)
      let waits = 0
      rig.beforeClaim = (scopes) => {
        if (!scopes.includes(scopeOf(acme)) || waits > 0) return Effect.void
        waits++
        return answers.await
      }
      yield* rig.append("a1")
      yield* passTime(1)
      assert.strictEqual(waits, 1)
      const scopes = placement.names().filter((name) => placement.placeOf(name) === 1)
      for (const name of scopes) yield* placement.move(name, 2)
      yield* passTime(3)
      assert.deepStrictEqual(received, ["a1"])
      for (const name of scopes) yield* placement.move(name, 1)
      yield* passTime(3)
      yield* answers.open
      yield* rig.append("a2")
      yield* passTime(2)
      assert.deepStrictEqual(received, ["a1", "a2"])
      const { shards, state } = yield* first.status
      assert.deepStrictEqual([shards, state], [63, "running"])
    }))

  it.effect("a shard that leaves and returns while its database is unavailable counts no crash for its attempts (X9, X10)", () =>
    Effect.gen(function*() {
      const started: Array<string> = []
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        trigger,
        { timeout: "10 minutes" },
        ({ recordId }) => Effect.andThen(Effect.sync(() => started.push(recordId)), Effect.sleep("1 minute"))
      )
      const { move, passTime, rig } = yield* pair(plugin)
      yield* rig.append("a1")
      yield* passTime(1)
      let isDown = false
      rig.beforeClaim = () => isDown ? Effect.fail(unavailable) : Effect.void
      for (let times = 1; times <= 5; times++) {
        assert.strictEqual(started.length, times)
        isDown = true
        // a shard that no other process has taken in the meantime
        yield* move(acme, 3)
        yield* passTime(3)
        isDown = false
        yield* move(acme, 1)
        yield* passTime(2)
      }
      assert.deepStrictEqual(yield* rig.deliveries.deadLetters({ limit: 10 }), [])
      yield* passTime(61)
      yield* rig.empty
    }))

  describe("a handler that computes without yielding", () => {
    /** Afterwards the last attempts end, even if the test fails: the engine waits for them. */
    const ending = <E, R>(body: Effect.Effect<void, E, R>) => Effect.ensuring(body, TestClock.adjust("2 minutes"))
    const blockers = (ids: ReadonlyArray<string>) => {
      const started: Array<string> = []
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        trigger,
        { timeout: "10 minutes" },
        ({ recordId }) =>
          Effect.gen(function*() {
            started.push(recordId)
            if (ids.includes(recordId)) compute(1_100)
            yield* Effect.sleep("1 minute")
          })
      )
      return { started, plugin }
    }
    /** The process loses its shard, which no other process takes, and takes it again. */
    const loseAndTakeAgain = Effect.fnUntraced(function*({ move, passTime }: Effect.Success<ReturnType<typeof pair>>) {
      yield* move(acme, 3)
      yield* passTime(3)
      yield* move(acme, 1)
      yield* passTime(2)
    })

    it.effect("and loses its shard each time becomes a dead letter after four attempts; others count no crash (L21)", () =>
      ending(Effect.gen(function*() {
        const { plugin, started } = blockers(["a1"])
        const processes = yield* pair(plugin)
        const { passTime, rig } = processes
        yield* rig.append("a1")
        yield* rig.append("a2")
        for (let times = 1; times <= isolateAfterCrashes; times++) {
          yield* passTime(1)
          yield* loseAndTakeAgain(processes)
        }
        // the other delivery runs to its end, then the suspect runs alone
        yield* passTime(62)
        assert.lengthOf(started.filter((id) => id === "a1"), isolateAfterCrashes + 1)
        yield* loseAndTakeAgain(processes)
        const letters = yield* rig.deliveries.deadLetters({ limit: 10 })
        assert.deepStrictEqual(letters.map(({ event, failure }) => [event?.id, failure.reason]), [
          ["a1", "ProcessEnded"]
        ])
        yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.dead === 1 && row.due + row.running === 0)
      })))

    it.effect("counts a crash even if its database is unavailable when the shard moves (L21, X10)", () =>
      ending(Effect.gen(function*() {
        const { plugin, started } = blockers(["a1"])
        const processes = yield* pair(plugin)
        const { move, passTime, rig } = processes
        yield* rig.append("a1")
        yield* passTime(1)
        let isDown = false
        rig.beforeClaim = () => isDown ? Effect.fail(unavailable) : Effect.void
        for (let times = 0; times < isolateAfterCrashes + 2; times++) {
          isDown = true
          yield* move(acme, 3)
          yield* passTime(3)
          isDown = false
          yield* move(acme, 1)
          yield* passTime(2)
        }
        assert.lengthOf(started, isolateAfterCrashes + 1)
        yield* rig.dead(1)
      })))
  })

  describe("a shard that is lost and taken again while an attempt of its earlier term still runs", () => {
    /** The first attempt of `a1` ends 30 seconds after it started, even if it is interrupted; later ones take two minutes. */
    const takenAgain = Effect.fnUntraced(function*(lostClaims: number) {
      const started: Array<string> = []
      const plugin = Plugin.make("p").with({ from: "oldest" }).on(
        trigger,
        { concurrency: 8, timeout: "10 minutes" },
        ({ recordId }) =>
          Effect.suspend(() => {
            started.push(recordId)
            if (recordId !== "a1") return Effect.void
            return started.length === 1 ? Effect.uninterruptible(Effect.sleep("30 seconds")) : Effect.sleep("2 minutes")
          })
      )
      const processes = yield* pair(plugin)
      const { passTime, rig } = processes
      yield* rig.append("a1")
      yield* passTime(1)
      assert.deepStrictEqual(started, ["a1"])
      yield* rig.store.takeOwnerships([scopeOf(acme)])
      yield* rig.append("a2")
      yield* passTime(2)
      assert.deepStrictEqual(started, ["a1"])
      rig.lostClaims = lostClaims
      yield* passTime(12)
      return { ...processes, started }
    })

    it.effect("claims its deliveries again if the response of their claim is lost (X9, X10)", () =>
      Effect.gen(function*() {
        const { passTime, rig, started } = yield* takenAgain(1)
        assert.deepStrictEqual([rig.lostClaims, started.toSorted()], [0, ["a1", "a1", "a2"]])
        yield* passTime(140)
        yield* rig.empty
      }))

    it.effect("runs an attempt of the new term on after that of the earlier term has ended (X9, X10)", () =>
      Effect.gen(function*() {
        const { passTime, rig, started } = yield* takenAgain(0)
        assert.deepStrictEqual(started.toSorted(), ["a1", "a1", "a2"])
        yield* passTime(20)
        rig.lostClaims = 1
        yield* rig.append("a3")
        yield* passTime(3)
        assert.deepStrictEqual([rig.lostClaims, started.toSorted()], [0, ["a1", "a1", "a2", "a3"]])
        yield* passTime(120)
        yield* rig.empty
      }))
  })

  it.effect("a process that is replaced as the one that creates deliveries runs those of its shards on (I10)", () =>
    Effect.gen(function*() {
      const { plugin, received } = receiving()
      const { first, passTime, placement, rig } = yield* pair(plugin)
      placement.freeze(1)
      yield* placement.move(dispatchScope, 2)
      yield* passTime(1)
      yield* rig.append("a1")
      yield* rig.append("b1", { integration: other })
      yield* passTime(2)
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["a1", "b1"])
      const { dispatches, state } = yield* first.status
      assert.deepStrictEqual([dispatches, state], [false, "running"])
    }))
})
