/** Pauses reading while publishing is too far behind. Logs one line when the pause begins and one when it ends. */
import * as Effect from "effect/Effect"
import type { Store } from "../../store/Store.ts"

/** Reading pauses while this reader of the event log is more than `limit` events behind (X10). */
export interface Backpressure {
  readonly reader: string
  readonly limit: number
}

export const make = (store: Store["Service"], options: Backpressure | null) => {
  let waiting = false
  return {
    /** True if the reader is more than `limit` events behind. */
    isTooFarBehind: Effect.gen(function*() {
      if (options === null) return false
      const { newest } = yield* store.logRange
      const behind = newest - (yield* store.readerPosition(options.reader))
      const full = behind > options.limit
      if (full !== waiting) {
        waiting = full
        yield* Effect.logWarning(full ? "reading paused: too many events are unpublished" : "reading resumed").pipe(
          Effect.annotateLogs({ reader: options.reader, behind })
        )
      }
      return full
    })
  }
}
