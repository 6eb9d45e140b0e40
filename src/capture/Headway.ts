/**
 * What keeps reading from going on: a store that is away, or too much that nobody has published yet. Each is told once when
 * it begins and once when it is over, however many streams meet it.
 */
import * as Effect from "effect/Effect"
import type { Store, StoreError } from "../store/Store.ts"

/** Reading waits while this reader of the log is more than `limit` events behind (X10). */
export interface BackPressure {
  readonly reader: string
  readonly limit: number
}

export const make = (store: Store["Service"], backPressure: BackPressure | null) => {
  let waiting = false
  let away: string | null = null
  return {
    /** Whether whoever publishes is too far behind for anything more to be read. */
    backedUp: Effect.gen(function*() {
      if (backPressure === null) return false
      const { newest } = yield* store.logRange
      const behind = newest - (yield* store.readerPosition(backPressure.reader))
      const full = behind > backPressure.limit
      if (full !== waiting) {
        waiting = full
        yield* Effect.logWarning(full ? "reading waits: too much is unpublished" : "reading goes on").pipe(
          Effect.annotateLogs({ reader: backPressure.reader, behind })
        )
      }
      return full
    }),
    /** The store failed so, or answers (null). */
    storeIs: (error: StoreError | null): Effect.Effect<void> =>
      Effect.suspend(() => {
        if ((away === null) === (error === null)) return Effect.void
        away = error?.message ?? null
        return error === null
          ? Effect.logInfo("store available again")
          : Effect.annotateLogs(Effect.logError("store unavailable"), { why: error.message })
      }),
    /** How the store failed, null while it answers. */
    heldUp: Effect.sync(() => away)
  }
}
