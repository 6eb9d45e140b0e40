import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import { TestClock } from "effect/testing"
import { Placement } from "../../fleet/Placement.ts"
import { Fenced, StoreError } from "../../store/Store.ts"
import { Forgetting } from "../forget/Forgetting.ts"
import { Capture } from "../schedule/Capture.ts"
import { Integrations } from "../schedule/Integrations.ts"
import { Commands } from "./Commands.ts"
import * as PlacedShards from "./PlacedShards.ts"

/** Notes what happens to shards, in order. `runs`: what the placement runs for each shard. */
const setup = (resume: Effect.Effect<void, StoreError> = Effect.void) => {
  const events: Array<string> = []
  const lost = Effect.runSync(Queue.unbounded<string>())
  const runs = new Map<string, Effect.Effect<never>>()
  const note = (event: string, shards: Iterable<string>) =>
    Effect.sync(() => void events.push(`${event} ${[...shards].join(" ")}`))
  const services = Layer.mergeAll(
    Layer.mock(Capture)({
      ownerOf: (scope) => ({ scope, epoch: 1 }),
      owns: () => true,
      take: (shards) => note("take", shards),
      handOver: (shards) => note("hand over", shards),
      awaitLost: Queue.take(lost)
    }),
    Layer.mock(Integrations)({ resume: (shards) => Effect.andThen(note("read", shards), resume) }),
    Layer.mock(Forgetting)({ resume: () => Effect.void }),
    Layer.mock(Commands)({
      serve: (shard) => Effect.acquireRelease(note("serve", [shard]), () => note("stop serving", [shard]))
    }),
    Layer.succeed(Placement)({ singleton: (name, run) => Effect.sync(() => void runs.set(name, run)) })
  )
  return {
    events,
    lose: (shard: string) => Queue.offer(lost, shard),
    run: Effect.forkChild(Effect.provide(PlacedShards.run, services), { startImmediately: true }),
    place: (shard: string) => Effect.forkChild(runs.get(shard)!, { startImmediately: true })
  }
}

describe("the shards that are placed in a process", () => {
  it.effect("have their commands executed there after their streams are read, and no longer when they are handed over", () =>
    Effect.gen(function*() {
      const { events, place, run } = setup()
      yield* run
      const [first] = [yield* place("capture/1"), yield* place("capture/2")]
      yield* TestClock.adjust("20 millis")
      const taken = ["take", "read"].map((event) => `${event} capture/1 capture/2`)
      assert.deepStrictEqual(events.splice(0), [...taken, "serve capture/1", "serve capture/2"])
      yield* Fiber.interrupt(first)
      assert.deepStrictEqual(events.splice(0), ["stop serving capture/1", "hand over capture/1"])
      yield* place("capture/1")
      yield* TestClock.adjust("20 millis")
      assert.deepStrictEqual(events, ["take capture/1", "read capture/1", "serve capture/1"])
    }))

  it.effect("are taken again if another process took them over meanwhile, unless they have moved away by then (I10)", () =>
    Effect.gen(function*() {
      let failures = 1
      const fenced = new StoreError({ reason: new Fenced({ scope: "capture/1", epoch: 3 }) })
      const { events, place, run } = setup(Effect.suspend(() => failures-- > 0 ? Effect.fail(fenced) : Effect.void))
      yield* run
      const [first] = [yield* place("capture/1"), yield* place("capture/2")]
      yield* TestClock.adjust("20 millis")
      assert.deepStrictEqual(events.splice(0), ["take", "read"].map((event) => `${event} capture/1 capture/2`))
      yield* Fiber.interrupt(first)
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(events, ["hand over capture/1", "take capture/2", "read capture/2", "serve capture/2"])
    }))

  it.effect("are taken again if another process keeps them although they are placed here (I10)", () =>
    Effect.gen(function*() {
      const { events, lose, place, run } = setup()
      yield* run
      yield* place("capture/1")
      yield* TestClock.adjust("20 millis")
      events.splice(0)
      yield* lose("capture/1")
      yield* TestClock.adjust("20 millis")
      assert.deepStrictEqual(events, ["stop serving", "take", "read", "serve"].map((event) => `${event} capture/1`))
    }))

  it.effect("end the process if it may take nothing over, because the store was adopted (X14)", () =>
    Effect.gen(function*() {
      const adopted = new StoreError({ reason: new Fenced({ scope: "capture/1", epoch: 0 }) })
      const { place, run } = setup(Effect.fail(adopted))
      const running = yield* run
      yield* place("capture/1")
      yield* TestClock.adjust("20 millis")
      assert.strictEqual(yield* Effect.flip(Fiber.join(running)), adopted)
    }))
})
