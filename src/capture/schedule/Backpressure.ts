/** Keeps reading from running ahead of what is published: logged once when it begins and once when it is over. */
import * as Effect from "effect/Effect"
import type { Store } from "../../store/Store.ts"

/** Reading waits while this reader of the log is more than `limit` events behind (X10). */
export interface Backpressure {
  readonly reader: string
  readonly limit: number
}

export const make = (store: Store["Service"], options: Backpressure | null) => {
  let waiting = false
  return {
    /** Whether whoever publishes is too far behind for anything more to be read. */
    isTooFarBehind: Effect.gen(function*() {
      if (options === null) return false
      const { newest } = yield* store.logRange
      const behind = newest - (yield* store.readerPosition(options.reader))
      const full = behind > options.limit
      if (full !== waiting) {
        waiting = full
        yield* Effect.logWarning(full ? "reading waits: too much is unpublished" : "reading goes on").pipe(
          Effect.annotateLogs({ reader: options.reader, behind })
        )
      }
      return full
    })
  }
}
