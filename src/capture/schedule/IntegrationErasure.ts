/**
 * Erases the records of removed integrations: waits until every reader of the log has read their events, and then deletes them.
 *
 * Gotchas
 * - The integration is stored as `erasing` beforehand. If this process loses the shard or the store, the next owner of the shard starts the
 *   erasure again.
 */
import * as Effect from "effect/Effect"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import type { Capture } from "./Capture.ts"

export interface ErasureOptions {
  /** Readers of this process that must have read an integration's events before they are erased. */
  readonly readers: ReadonlyArray<string>
  /** Runs when all records of the integration are deleted. */
  readonly finish: (id: string) => Effect.Effect<void, StoreError>
}

const readerCheckInterval = "1 second"
/** Checks before the log says why nothing is erased: readers are usually behind for a moment only. */
const quietChecks = 10
/** Longer than the time between two notes of the readers of a process (`publish/Retention.ts`), in ms. */
const neededWithin = 3_600_000

/** Makes a function that erases an integration in the background. */
export const make = (store: Store["Service"], capture: Capture["Service"], { finish, readers }: ErasureOptions) => {
  /** Waits until every reader of this process and of the others has read the events that are in the log now; returns their newest position. */
  const awaitReaders = Effect.fnUntraced(function*(id: string) {
    const { newest } = yield* store.logRange
    const behind = Effect.map(
      Effect.zip(Effect.forEach(readers, store.readerPosition), store.neededPositions(neededWithin)),
      (positions) => positions.flat().some((position) => position < newest)
    )
    for (let checks = 1; yield* behind; checks++) {
      if (checks === quietChecks) {
        yield* Effect.annotateLogs(
          Effect.logWarning("an integration is not erased until Kafka and the plugins have read its events"),
          {
            integration: id,
            hint:
              "If this process has neither, another process has, or one had within the last hour: start it, or wait until the hour is over"
          }
        )
      }
      yield* Effect.sleep(readerCheckInterval)
    }
    return newest
  })

  const erase = Effect.fnUntraced(function*(id: string) {
    for (let isErased = false; !isErased;) {
      const readTo = yield* awaitReaders(id)
      const own = yield* store.streamsOf(id)
      const erased = yield* Effect.forEach(own, (key) => store.eraseStream(capture.ownerOf(id), key, readTo))
      isErased = erased.every(Boolean)
    }
    // While another process reads the store, this may free no space. The next retention run then frees it.
    yield* store.reclaim
    yield* finish(id)
  })

  /** The erasures that run. A second one of the same integration might end later, and delete what was read since it was added again. */
  const running = new Set<string>()

  return (id: string): Effect.Effect<void> => {
    const erasure = erase(id).pipe(
      retryWhileStoreUnavailable,
      Effect.catch((error) =>
        Effect.annotateLogs(Effect.logError("integration not erased; the erasure is resumed at the next start"), {
          integration: id,
          why: error.message
        })
      ),
      Effect.ensuring(Effect.sync(() => running.delete(id)))
    )
    return capture.runFor(
      id,
      Effect.suspend(() => {
        if (running.has(id)) return Effect.void
        running.add(id)
        return erasure
      })
    )
  }
}
