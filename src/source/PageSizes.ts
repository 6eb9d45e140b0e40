/**
 * Decides with how many rows each page of a list is requested. A page that is too large, or that takes the API too long, is requested with
 * fewer rows.
 *
 * Invariants
 * 1. The pages of a run only get smaller: if the cursor counts pages, a larger page would skip rows
 * 2. The request fails only if no size works
 * 3. An outage does not change the size: after a success with fewer rows, the known size is tried once more. Only if that fails, later
 *    pages have fewer rows
 *
 * Gotchas
 * - Sweeps have sizes of their own, because a poll may run between two pages of a sweep, and the first page of a poll may be larger.
 * - So do the requests of plugins. They may run at any time, even several at once, so their pages never grow.
 * - The sizes are in memory. After a restart they are found again. A run that was continued then may have skipped rows, and such a run is
 *   followed by another pass (`capture/read/SweepPasses.ts`).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { millisOf } from "./MonotonicClock.ts"
import type { PageRequest } from "./Source.ts"
import { isCut, isSlow, isTooLarge, type SourceError } from "./SourceError.ts"

/** After a failure, a run tries a larger first page only after this time, so that slow requests do not delay each run. */
const growAfter = Duration.minutes(15)
const factor = 5
/** Attempts with a size that worked before; all smaller sizes have one. */
const triesOfKnownSize = 2

const fewer = (rows: number): number => Math.ceil(rows / factor)

/**
 * Sends a request. `rows` is called for each attempt. `onFailure` is called after each failed attempt that may be repeated, and returns
 * false if it must not be repeated.
 */
export type SendPage<A> = (
  rows: () => number,
  onFailure: (error: SourceError) => boolean
) => Effect.Effect<A, SourceError>

interface Size {
  readonly rows: number
  /** The time at which a run may try a larger first page, in ms of the monotonic clock. */
  readonly growAt: number
  /** The size with which the next request begins, because the previous one failed before it found a size that works. */
  readonly trial?: number
}

export const make = () => {
  const sizes = new Map<string, Size>()

  /** `limit`: the largest size; 1 for a list that is always returned as a whole. */
  const read = Effect.fnUntraced(function*<A>(
    { cursor, ids, integration, model, priority, updatedAfter }: PageRequest,
    limit: number,
    send: SendPage<A>
  ): Effect.fn.Return<A, SourceError> {
    const isOfPlugin = priority === "write"
    const kind = isOfPlugin ? "plugins" : updatedAfter === null && ids === null ? "sweep" : "changes"
    const list = `${integration}/${model}/${kind}`
    const now = millisOf(yield* Clock.Clock)
    const size = sizes.get(list) ?? { rows: limit, growAt: -Infinity }
    const known = Math.min(size.rows, limit)
    const mayGrow = cursor === null && ids === null && !isOfPlugin && now >= size.growAt
    const first = mayGrow ? Math.min(known * factor, limit) : known
    let rows = Math.min(size.trial ?? first, limit)
    let tries = 0
    /** The smallest size that failed in this request. */
    let failed = Infinity
    let why = "slow"

    const onFailure = (error: SourceError): boolean => {
      if (isTooLarge(error)) return false
      if (!isSlow(error) && !isCut(error)) return true
      tries++
      failed = Math.min(failed, rows)
      if (rows > known) [rows, tries] = [known, 0]
      else if (rows < known || isCut(error) || tries >= triesOfKnownSize) rows = fewer(rows)
      return true
    }
    for (;;) {
      const found = yield* Effect.result(send(() => rows, onFailure))
      if (Result.isFailure(found)) {
        const error = found.failure
        if (!isTooLarge(error)) {
          // The circuit of the integration may open after each attempt, so the next request continues with the size of the next attempt.
          const latest = sizes.get(list) ?? size
          if (failed <= known) sizes.set(list, { ...latest, trial: Math.min(rows, fewer(latest.rows)) })
          return yield* error
        }
        if (rows === 1) return yield* error
        rows = rows > known ? known : fewer(rows)
        why = "large"
        continue
      }
      let page = found.success
      if (rows < known && why === "slow") {
        const between = []
        for (let size = rows * factor; size < Math.min(known, failed); size *= factor) between.push(size)
        // The same page once more: with the known size, or else with the largest size that works.
        for (const larger of [known, ...between]) {
          const again = yield* Effect.result(send(() => larger, ({ reason }) => reason._tag === "RateLimited"))
          if (Result.isSuccess(again)) [page, rows] = [again.success, larger]
          const isKnown = larger === known
          if (isKnown === Result.isSuccess(again)) break
        }
      }
      // a request that ran at the same time may have found that fewer rows are needed
      const latest = sizes.get(list)
      if (latest !== undefined && latest.rows < known && rows >= latest.rows) return page
      if (rows === limit) sizes.delete(list)
      else if (rows !== size.rows || first > rows || size.trial !== undefined) {
        sizes.set(list, { rows, growAt: now + Duration.toMillis(growAfter) })
      }
      if (rows < known) {
        yield* Effect.logWarning(`a page was too ${why}: later pages of this list are requested with fewer rows`).pipe(
          Effect.annotateLogs({ integration, model, rows })
        )
      }
      return page
    }
  })

  return { read }
}
