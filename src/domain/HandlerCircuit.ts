/**
 * The circuit of a handler. It opens when the handler fails for one record after another: the fault is then in the handler, not in the
 * records, and running it would only use up the attempts of each record. When the open time is over, one delivery at a time is tried,
 * until one succeeds.
 *
 * Invariants
 * 1. A circuit opens only after ten different records have failed without a success in between
 * 2. Only a trial makes the open time longer: attempts that were running when the circuit opened do not
 */

const failuresUntilOpen = 10
const firstOpenMillis = 30_000
const longestOpenMillis = 600_000

/** Times are those of one clock, ms. */
export interface HandlerCircuit {
  /** Ordering keys of the records that failed since the last success, at most ten. */
  readonly failed: ReadonlyArray<string>
  /** How often the circuit has opened since the last success. */
  readonly openings: number
  /** When the next delivery may be tried; null: the circuit is closed. */
  readonly until: number | null
}

export const closed: HandlerCircuit = { failed: [], openings: 0, until: null }

/** If the clock was set back, the open time counts as over: a handler must not wait until the clock has caught up   (W4). */
export const isOpen = ({ until }: HandlerCircuit, now: number): boolean =>
  until !== null && now < until && until - now <= longestOpenMillis

/** `failed`: the ordering key of the record for which the handler failed; null: it succeeded. */
export const afterAttempt = (circuit: HandlerCircuit, failed: string | null, now: number): HandlerCircuit => {
  if (failed === null) return closed
  const isKnown = circuit.failed.length >= failuresUntilOpen || circuit.failed.includes(failed)
  const next = isKnown ? circuit : { ...circuit, failed: [...circuit.failed, failed] }
  if (next.failed.length < failuresUntilOpen || isOpen(next, now)) return next
  const until = now + Math.min(longestOpenMillis, firstOpenMillis * 2 ** Math.min(next.openings, 10))
  return { ...next, openings: next.openings + 1, until }
}
