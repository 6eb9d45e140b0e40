/**
 * Lets a handler rest that fails for one record after the other: then it is not the records, and each would spend its
 * attempts on it.
 */

/** Different records that fail one after another until a handler rests. */
const failuresUntilOpen = 10
const firstOpenMillis = 30_000
const longestOpenMillis = 600_000

export interface OpenCircuit {
  /** Our clock, ms: then one delivery is tried. */
  readonly until: number
  readonly failures: number
}

/** Times are our clock, ms. */
export const make = () => {
  const failed = new Set<string>()
  let openings = 0
  let until: number | null = null
  /** Not until a clock that was set back has caught up   (W4). */
  const isOpen = (now: number) => until !== null && now < until && until - now <= longestOpenMillis

  return {
    /** null = it works, or is not known not to. */
    circuitOpen: (): OpenCircuit | null => until === null ? null : { until, failures: failed.size },
    /** How many deliveries it may take on beside those it has; a handler that rested tries one. */
    capacity: (free: number, inFlight: number, now: number): number =>
      until === null ? free : isOpen(now) || inFlight > 0 ? 0 : Math.min(free, 1),
    succeeded: () => {
      failed.clear()
      openings = 0
      until = null
    },
    failed: (orderingKey: string, now: number) => {
      failed.add(orderingKey)
      if (failed.size < failuresUntilOpen) return
      // those that were under way when it came to rest are no probes
      if (isOpen(now)) return
      until = now + Math.min(longestOpenMillis, firstOpenMillis * 2 ** Math.min(openings, 10))
      openings++
    }
  }
}

export type CircuitBreaker = ReturnType<typeof make>
