/**
 * Lets a handler rest that fails for one record after the other: then it is not the records, and each would spend its
 * attempts on it.
 */

/** Different records that fail one after another until a handler rests. */
const enough = 10
const firstRest = 30_000
const longestRest = 600_000

export interface Rest {
  /** Our clock, ms: then one delivery is tried. */
  readonly until: number
  readonly failures: number
}

/** Times are our clock, ms. */
export const make = () => {
  const failed = new Set<string>()
  let rests = 0
  let until: number | null = null
  /** Not until a clock that was set back has caught up   (W4). */
  const isResting = (now: number) => until !== null && now < until && until - now <= longestRest

  return {
    /** null = it works, or is not known not to. */
    resting: (): Rest | null => until === null ? null : { until, failures: failed.size },
    /** How many deliveries it may take on beside those it has; a handler that rested tries one. */
    room: (free: number, held: number, now: number): number =>
      until === null ? free : isResting(now) || held > 0 ? 0 : Math.min(free, 1),
    succeeded: () => {
      failed.clear()
      rests = 0
      until = null
    },
    failed: (lane: string, now: number) => {
      failed.add(lane)
      if (failed.size < enough) return
      // those that were under way when it came to rest are no probes
      if (isResting(now)) return
      until = now + Math.min(longestRest, firstRest * 2 ** Math.min(rests, 10))
      rests++
    }
  }
}

export type Breaker = ReturnType<typeof make>
