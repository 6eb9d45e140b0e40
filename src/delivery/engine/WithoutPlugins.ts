/**
 * For a process without plugins: deliveries that were running when an earlier process ended wait again. Otherwise the forgetting of a
 * record would wait for them forever.
 */
import * as Effect from "effect/Effect"
import { deliveryScopes, dispatchScope } from "../../domain/Shard.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import { Store, type StoreError } from "../../store/Store.ts"

export const endRunningDeliveries: Effect.Effect<void, StoreError, Store | Deliveries> = Effect.gen(function*() {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const owners = yield* store.takeOwnerships([dispatchScope, ...deliveryScopes])
  yield* deliveries.registerHandlers(owners.get(dispatchScope)!, [])
  yield* deliveries.recoverShards(deliveryScopes.map((scope) => owners.get(scope)!))
}).pipe(retryWhileStoreUnavailable)
