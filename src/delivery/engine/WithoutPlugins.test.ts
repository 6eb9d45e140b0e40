import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { ann, entries, integration, scenario, startProcess } from "../../../test/support/capture/ForgettingWorld.ts"
import { deliveryScopes, dispatchScope } from "../../domain/Shard.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { Store } from "../../store/Store.ts"
import { endRunningDeliveries } from "./WithoutPlugins.ts"

describe("in a process without plugins", () => {
  it.effect("a delivery that ran when its process ended does not prevent forgetting a person", () =>
    scenario(Effect.fnUntraced(function*() {
      const store = yield* Store
      const deliveries = yield* Deliveries
      const process = yield* startProcess
      const owner = yield* store.takeOwnership(dispatchScope)
      const owners = [...(yield* store.takeOwnerships(deliveryScopes)).values()]
      const handler = { plugin: "p", handler: "h", scheduled: false, from: "oldest", skipsDeadLetters: false } as const
      const [{ key: handlerKey } = assert.fail("no handler")] = yield* deliveries.registerHandlers(owner, [handler])
      const created = (yield* entries).find(({ id }) => id === "c-ann")!
      yield* deliveries.dispatch(owner, {
        handlers: [handlerKey],
        position: created.position,
        deliveries: [{
          handler: handlerKey,
          integration,
          orderingKey: "c-ann",
          subject: { _tag: "Event", position: created.position },
          dueAt: 0,
          dead: null,
          fresh: null
        }]
      })
      const { claimed } = yield* deliveries.settleAndClaim(owners, [], [
        {
          handler: handlerKey,
          most: 1,
          mostAfterCrash: 1,
          isolated: false,
          size: null,
          concurrency: 1,
          excludedIntegrations: [],
          subject: "Event",
          maxLead: 1e12
        }
      ])
      assert.strictEqual(claimed.length, 1)
      yield* endRunningDeliveries
      const { hash } = yield* process.plan(ann)
      yield* Effect.forkChild(process.forget(ann, hash))
      for (let minute = 0; minute < 60; minute++) {
        yield* TestClock.adjust("1 minute")
        // plans and commits also wait for events of Node
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      assert.deepStrictEqual((yield* store.forgotten).map(({ state }) => state), ["forgotten"])
    })))
})
