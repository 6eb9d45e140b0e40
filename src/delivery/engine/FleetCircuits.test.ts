/** The circuit of a handler whose deliveries run in several processes. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { other, pair, trigger, useWatchdogClocks } from "../../../test/support/delivery/ProcessPair.ts"
import { acme, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

useWatchdogClocks()

describe("the circuit of a handler in two processes", () => {
  /** A handler that fails while `isBroken`. Its attempts take a second. */
  const failing = (concurrency: number) => {
    const state = { isBroken: true, running: 0, most: 0, started: new Array<string>() }
    const plugin = Plugin.make("p").with({ from: "oldest" }).on(
      trigger,
      { concurrency },
      ({ integration, recordId }) =>
        Effect.gen(function*() {
          state.started.push(`${integration} ${recordId}`)
          state.running++
          state.most = Math.max(state.most, state.running)
          yield* Effect.sleep("1 second")
          if (state.isBroken) yield* new Plugin.Transient({ message: "the mail server does not answer" })
        }).pipe(Effect.ensuring(Effect.sync(() => state.running--)))
    )
    return { state, plugin }
  }
  const circuitOf = (rig: Rig) => Effect.map(Effect.orDie(rig.deliveries.handlers), ([state]) => state!.circuit)
  /** Deliveries of five records fail in the second process, then those of others in the first: the circuit opens. */
  const opened = Effect.fnUntraced(function*(concurrency = 4) {
    const { plugin, state } = failing(concurrency)
    const processes = yield* pair(plugin)
    const { passTime, rig } = processes
    for (let n = 0; n < 5; n++) yield* rig.append(`b${n}`, { integration: other })
    yield* passTime(3)
    assert.strictEqual((yield* circuitOf(rig)).failed.length, 5)
    state.started.length = 0
    for (let n = 0; n < 20; n++) yield* rig.append(`a${n}`)
    yield* passTime(5)
    const { failed, openUntil } = yield* circuitOf(rig)
    assert.deepStrictEqual([failed.length, openUntil === null], [10, false])
    return { ...processes, state }
  })

  it.effect("opens for both when both together failed for ten records, and neither starts a delivery then", () =>
    Effect.gen(function*() {
      const { passTime, state } = yield* opened()
      // four run at once, so at most three more had started when the tenth failed
      assert.isAtMost(new Set(state.started.filter((one) => one.startsWith(acme))).size, 5 + 3)
      const before = state.started.length
      yield* passTime(20)
      assert.strictEqual(state.started.length, before)
    }))

  it.effect("lets one trial run in both together, and a success lets both continue within a second", () =>
    Effect.gen(function*() {
      const { passTime, rig, state } = yield* opened(40)
      state.most = 0
      const before = state.started.length
      yield* passTime(60)
      assert.deepStrictEqual([state.most, state.started.length], [1, before + 1])
      state.isBroken = false
      state.started.length = 0
      while ((yield* circuitOf(rig)).openUntil !== null) yield* passTime(0.25)
      yield* passTime(1)
      assert.strictEqual(new Set(state.started).size, 25)
      yield* passTime(700)
      yield* rig.empty
    }))

  it.effect("lets another trial run after the process of a trial was frozen or killed (X9, X16)", () =>
    Effect.gen(function*() {
      const { passTime, placement, rig, state } = yield* opened()
      while (state.running === 0) yield* passTime(0.25)
      const [integration] = state.started.at(-1)?.split(" ") ?? []
      const [dead, heir] = integration === acme ? [1, 2] : [2, 1]
      placement.freeze(dead)
      for (const name of placement.names()) if (placement.placeOf(name) === dead) yield* placement.move(name, heir)
      const before = state.started.length
      state.isBroken = false
      yield* passTime(5)
      assert.isAbove(state.started.length, before)
      yield* passTime(700)
      yield* rig.empty
    }))
})
