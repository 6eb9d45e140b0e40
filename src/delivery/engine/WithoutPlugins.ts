/**
 * For a process without plugins: deliveries that were running when an earlier process ended wait again. Otherwise forgetting a record
 * would wait for them forever.
 */
import * as Effect from "effect/Effect"
import { Deliveries } from "../../store/Deliveries.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import { Store, type StoreError } from "../../store/Store.ts"

/** The ownership scope: one process per store owns it. */
export const deliveryScope = "delivery"

export const endRunningDeliveries: Effect.Effect<void, StoreError, Store | Deliveries> = Effect.gen(function*() {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const owner = yield* store.takeOwnership(deliveryScope)
  yield* deliveries.registerHandlers(owner, [])
}).pipe(retryWhileStoreUnavailable)
