import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { append } from "../../test/integration/publish/Log.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { expected, ids, publishingThrough, start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { Store } from "../store/Store.ts"

const store = MemoryStore.layer()

/** Starts a relay that is blocked in its first batch until `release`. */
const stuck = Effect.fnUntraced(function*(broker: MemorySink.MemoryBroker) {
  const entered = yield* Deferred.make<void>()
  const release = yield* Deferred.make<void>()
  yield* append(10)
  const { end } = yield* start(broker, {
    sink: publishingThrough((_, send) =>
      Deferred.succeed(entered, undefined).pipe(Effect.andThen(Deferred.await(release)), Effect.andThen(send))
    )
  })
  yield* Deferred.await(entered)
  return { release: Deferred.succeed(release, undefined), end }
})

describe("the shutdown of a relay", () => {
  it.effect("a batch in progress is completed on shutdown", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* stuck(broker)
      const ended = yield* Effect.forkChild(relay.end)
      yield* TestClock.adjust("1 second")
      yield* relay.release
      yield* Fiber.join(ended)
      assert.deepStrictEqual(ids(broker), expected(1, 10))
      assert.strictEqual(yield* (yield* Store).readerPosition("relay"), 10)
    }).pipe(Effect.provide(store)))

  it.effect("a sink that hangs delays the shutdown only briefly, and no event is lost (X10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* stuck(broker)
      const from = yield* Clock.currentTimeMillis
      yield* whileTimePasses(relay.end)
      assert.isAtMost((yield* Clock.currentTimeMillis) - from, 2_000)
      assert.deepStrictEqual(ids(broker), [])
      const next = yield* start(broker)
      yield* next.awaitPosition(10)
      assert.deepStrictEqual(ids(broker), expected(1, 10))
    }).pipe(Effect.provide(store)))
})
