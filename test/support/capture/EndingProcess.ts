/** A process that ends at any moment, for tests of what the next one continues. */
import * as Effect from "effect/Effect"
import { Store } from "../../../src/store/Store.ts"

/** Runs `work` in a process that ends after this number of transactions of streams. */
export const endingAfter = Effect.fnUntraced(function*<A, E, R>(transactions: number, work: Effect.Effect<A, E, R>) {
  const store = yield* Store
  let left = transactions
  const transact: typeof store.transact = (owner, key, body) =>
    Effect.suspend(() => left-- > 0 ? store.transact(owner, key, body) : Effect.die("ended"))
  return yield* Effect.exit(Effect.provideService(work, Store, { ...store, transact }))
})
