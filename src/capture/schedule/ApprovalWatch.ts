/** Finds the streams with holds that an operator has approved, in this process or in another one. */
import * as Effect from "effect/Effect"
import { streamName } from "../../domain/Model.ts"
import type { ListedHold } from "../../store/Records.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import type { Store, StoreError } from "../../store/Store.ts"

const approvedPage = 100

/** Calls `wake` for each stream with an approved hold, at the start and after each decision, until interrupted. */
export const watchApprovals = (
  store: Store["Service"],
  wake: (stream: string) => Effect.Effect<void>
): Effect.Effect<never, StoreError> => {
  const wakeAll = Effect.gen(function*() {
    let page: ReadonlyArray<ListedHold>
    let before = Number.MAX_SAFE_INTEGER
    do {
      page = yield* store.holds({ states: ["approving"], before, limit: approvedPage })
      before = page.at(-1)?.id ?? 0
      yield* Effect.forEach(new Set(page.map(streamName)), wake, { discard: true })
    } while (page.length === approvedPage)
  })
  return Effect.gen(function*() {
    let seen = 0
    for (;;) {
      yield* retryWhileStoreUnavailable(wakeAll)
      seen = yield* store.awaitDecision(seen)
    }
  })
}
