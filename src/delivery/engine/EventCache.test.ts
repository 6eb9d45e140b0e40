import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { changeOf, headOf, headsOf, stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { Store } from "../../store/Store.ts"
import * as EventCache from "./EventCache.ts"

describe("events in memory", () => {
  it.effect("a delete is read again for each delivery, because its content before it may have been forgotten", () =>
    Effect.gen(function*() {
      const store = yield* Store
      const deliveries = yield* Deliveries
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, tags, (tx) => tx.write([changeOf(headOf("a"), "created")]))
      yield* store.transact(owner, tags, (tx) =>
        Effect.gen(function*() {
          const head = (yield* headsOf(tx, ["a"])).get("a")!
          yield* tx.write([changeOf(head, "deleted", { reason: "flagged", after: null })])
        }))
      const cache = EventCache.make(store.identity, deliveries)
      const before = Effect.map(cache.load([2]), (events) => events.get(2)?.before)
      for (const entry of yield* store.readLog({ after: 0, limit: 10 })) cache.add(entry)
      assert.isNotNull(yield* before)
      yield* deliveries.purgeForgotten(tags, ["a"], { found: [], own: true })
      assert.isNull(yield* before)
    }).pipe(Effect.provide(Layer.fresh(MemoryStore.layer()))))
})
