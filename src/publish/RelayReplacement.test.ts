import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { append } from "../../test/integration/publish/Log.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { expected, ids, once, publishingThrough, start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { Store, type StoreError } from "../store/Store.ts"

const store = MemoryStore.layer()

/** A store that reads from `current`: first one that has published, then the copy that replaces it. */
const replaceable = Effect.gen(function*() {
  const first = yield* Store
  let current = first
  const now = <A, E>(use: (store: Store["Service"]) => Effect.Effect<A, E>) => Effect.suspend(() => use(current))
  const store: Store["Service"] = {
    ...first,
    streams: now(({ streams }) => streams),
    streamsAtPosition: now(({ streamsAtPosition }) => streamsAtPosition),
    logRange: now(({ logRange }) => logRange),
    chains: (positions) => now(({ chains }) => chains(positions)),
    readLog: (query) => now(({ readLog }) => readLog(query)),
    awaitLog: (after) => now(({ awaitLog }) => awaitLog(after)),
    readerPosition: (reader) => now(({ readerPosition }) => readerPosition(reader)),
    saveReaderPosition: (...args) => now(({ saveReaderPosition }) => saveReaderPosition(...args))
  }
  const replaceWith = Effect.fnUntraced(function*(fill: Effect.Effect<void, StoreError, Store>) {
    const other = Context.get(yield* Layer.build(Layer.fresh(MemoryStore.layer())), Store)
    yield* Effect.provideService(fill, Store, other)
    // The copy has the same owner.
    yield* other.takeOwnership("relay")
    current = other
  })
  return { store, replaceWith }
})

describe("a database that is replaced while the relay runs", () => {
  it.effect("a batch that was read before another copy replaced the store is not published (X18)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      let isReplaced = false
      const secondRead = yield* Deferred.make<void>()
      yield* append(1203)
      const relay = yield* start(broker, {
        sink: publishingThrough((_, send) =>
          Deferred.await(secondRead).pipe(
            Effect.andThen(send),
            Effect.tap(() => Effect.sync(() => isReplaced = true))
          )
        ),
        store: ({ chains }) => ({
          chains: (positions) =>
            Effect.map(chains(positions), (found) => {
              if (!isReplaced && positions.includes(1000)) Deferred.doneUnsafe(secondRead, Effect.void)
              return isReplaced
                ? { ...found, chains: found.chains.map((chain) => chain === null ? null : `other ${chain}`) }
                : found
            })
        })
      })
      const stopped = yield* once(relay, "stopped")
      assert.include(stopped.reason?.message ?? "", "at position 500 the log has another event")
      assert.deepStrictEqual(ids(broker), expected(1, 500))
    }).pipe(Effect.provide(store)))

  it.effect.each([
    { id: "X14", name: "a copy without some published events", copy: append(17), message: "ends at 17" },
    {
      id: "X18",
      name: "a copy that has grown beyond the position with other events",
      copy: Effect.andThen(append(17), append(10, "other")),
      message: "another event"
    }
  ])(
    "$name stops the relay, which publishes neither its events nor its progress ($id)",
    ({ copy, message }) =>
      Effect.gen(function*() {
        const broker = new MemorySink.MemoryBroker()
        const { replaceWith, store } = yield* replaceable
        const relay = yield* Effect.provideService(start(broker), Store, store)
        yield* append(20)
        yield* relay.awaitPosition(20)
        const progressBefore = new Map(broker.progress)
        yield* replaceWith(copy)
        const stopped = yield* once(relay, "stopped")
        yield* TestClock.adjust("60 minutes")
        assert.include(stopped.reason?.message, message)
        assert.include(stopped.reason?.hint, "rollcall store adopt")
        assert.deepStrictEqual(ids(broker), expected(1, 20))
        assert.deepStrictEqual(broker.progress, progressBefore)
      }).pipe(Effect.provide(store))
  )

  it.effect.each([
    {
      name: "other events",
      copy: append(10, "other"),
      published: [...expected(1, 20), ...expected(21, 30, "other")]
    },
    { name: "no events", copy: Effect.void, published: expected(1, 20) }
  ])(
    "publishes the events of a copy that replaces the store between reading and comparing: $name (X14)",
    ({ copy, published }) =>
      Effect.gen(function*() {
        const broker = new MemorySink.MemoryBroker()
        const { replaceWith, store } = yield* replaceable
        const scope = yield* Effect.scope
        let isRead = false
        const replacing: Store["Service"] = {
          ...store,
          readLog: (query) =>
            Effect.tap(store.readLog(query), (rows) =>
              isRead || rows.length === 0 || query.after < 20
                ? Effect.void
                : Effect.suspend(() => {
                  isRead = true
                  return Scope.provide(replaceWith(Effect.andThen(append(20), copy)), scope)
                }))
        }
        const relay = yield* Effect.provideService(start(broker), Store, replacing)
        yield* append(20)
        yield* relay.awaitPosition(20)
        yield* append(10)
        yield* whileTimePasses(Effect.andThen(Effect.sleep("10 seconds"), relay.status))
        assert.isTrue(isRead)
        assert.deepStrictEqual(ids(broker), published)
        assert.isNull((yield* relay.status).reason)
      }).pipe(Effect.provide(Layer.fresh(Layer.orDie(MemoryStore.layer()))))
  )

  it.effect("continues automatically with a copy that has the same events", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { replaceWith, store } = yield* replaceable
      const relay = yield* Effect.provideService(start(broker), Store, store)
      yield* append(20)
      yield* relay.awaitPosition(20)
      yield* replaceWith(append(23))
      yield* whileTimePasses(relay.awaitPosition(23))
      assert.deepStrictEqual(ids(broker), expected(1, 23))
    }).pipe(Effect.provide(store)))
})
