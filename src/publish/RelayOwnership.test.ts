import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/testing/TestClock"
import { append } from "../../test/integration/publish/Log.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { expected, ids, once, start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { Placement } from "../fleet/Placement.ts"
import { Store } from "../store/Store.ts"
import { Relay } from "./Relay.ts"

const store = MemoryStore.layer()

describe("the ownership of the relay", () => {
  it.effect("a relay whose store was taken over by another one stops, and does not take ownership again (I10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const old = yield* start(broker)
      yield* append(10)
      yield* old.awaitPosition(10)
      const next = yield* start(broker)
      yield* next.awaitPosition(10)
      yield* append(10)
      yield* next.awaitPosition(20)
      yield* once(old, "stopped")
      yield* TestClock.adjust("60 minutes")
      assert.strictEqual((yield* old.status).state, "stopped")
      assert.strictEqual((yield* next.status).state, "running")
      assert.deepStrictEqual(ids(broker), expected(1, 20))
    }).pipe(Effect.provide(store)))

  it.effect("a relay that was replaced before it opened the sink publishes nothing, not even the first batch (I10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(10)
      const relay = yield* start(broker, {
        store: ({ takeOwnership }) => ({
          takeOwnership: (scope) => Effect.tap(takeOwnership(scope), () => takeOwnership(scope))
        })
      })
      yield* once(relay, "stopped")
      assert.deepStrictEqual(ids(broker), [])
    }).pipe(Effect.provide(store)))

  it.effect("a relay of a fleet that was replaced but not moved takes ownership again after ten seconds (I10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* start(broker, {
        relay: Layer.provide(Relay.placedLayer({ takesAgain: true }), Placement.local)
      })
      yield* append(10)
      yield* relay.awaitPosition(10)
      yield* (yield* Store).takeOwnership("relay")
      yield* append(10)
      yield* once(relay, "stopped")
      yield* whileTimePasses(
        relay.awaitPosition(20).pipe(Effect.repeat({
          until: ({ state }) => state === "running",
          schedule: Schedule.spaced("1 second")
        }))
      )
      assert.deepStrictEqual(ids(broker), expected(1, 20))
    }).pipe(Effect.provide(store)))

  it.effect("a relay that is fenced by the sink but still owns the store opens the sink again (X15)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* start(broker)
      yield* append(10)
      yield* relay.awaitPosition(10)
      broker.openCount = 99
      yield* append(10)
      yield* whileTimePasses(relay.awaitPosition(20))
      assert.deepStrictEqual(ids(broker), expected(1, 20))
    }).pipe(Effect.provide(store)))
})
