/**
 * Opens the circuit of a handler that fails for one record after another. The fault is then in the handler, not in the
 * records, and running it would only use up the attempts of each record.
 */

/** The circuit opens when this many different records have failed in a row. */
const failuresUntilOpen = 10
const firstOpenMillis = 30_000
const longestOpenMillis = 600_000

export interface OpenCircuit {
  /** When the next delivery may be tried; our clock, ms. */
  readonly until: number
  readonly failures: number
}

/** Times are our clock, ms. */
export const make = () => {
  /** Ordering keys of the records that failed since the last success. */
  const failedRecords = new Set<string>()
  let openings = 0
  let until: number | null = null
  /** If the clock was set back, the open time counts as over: a handler must not wait until the clock has caught up   (W4). */
  const isOpen = (now: number) => until !== null && now < until && until - now <= longestOpenMillis

  return {
    /** null while the circuit is closed. */
    circuitOpen: (): OpenCircuit | null => until === null ? null : { until, failures: failedRecords.size },
    /** How many more deliveries the handler may claim. Once the open time is over it may claim one, as a probe. */
    capacity: (free: number, inFlight: number, now: number): number =>
      until === null ? free : isOpen(now) || inFlight > 0 ? 0 : Math.min(free, 1),
    succeeded: () => {
      failedRecords.clear()
      openings = 0
      until = null
    },
    failed: (orderingKey: string, now: number) => {
      failedRecords.add(orderingKey)
      if (failedRecords.size < failuresUntilOpen) return
      // attempts that were running when the circuit opened do not count as probes
      if (isOpen(now)) return
      until = now + Math.min(longestOpenMillis, firstOpenMillis * 2 ** Math.min(openings, 10))
      openings++
    }
  }
}

export type CircuitBreaker = ReturnType<typeof make>
