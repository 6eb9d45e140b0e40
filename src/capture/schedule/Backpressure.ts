/** Pauses reading while publishing is too far behind. Logs one line when the pause starts and one when it ends. */
import * as Effect from "effect/Effect"
import type { Store } from "../../store/Store.ts"

/** Reading pauses while this reader of the event log is more than `limit` events behind (X10). */
export interface Limit {
  readonly reader: string
  readonly limit: number
}

/** Why reading is paused, as text; null while streams are read. `behind`: how many events the reader is behind. */
export const describePause = (behind: number, { limit }: Pick<Limit, "limit">): string | null =>
  behind > limit
    ? `reading is paused, because ${behind} events are not published yet; it continues when at most ${limit} are left`
    : null

export type Backpressure = ReturnType<typeof make>

export const make = (store: Store["Service"], options: Limit | null) => {
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
