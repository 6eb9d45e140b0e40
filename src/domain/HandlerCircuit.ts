/**
 * The circuit of a handler. It opens when the handler fails for many different records in a row: the fault is then probably in the
 * handler, and running the handler again would only use up the attempts of each delivery. When the open time is over, deliveries are
 * tried one at a time (a trial). The first success closes the circuit; a failure after the open time opens it again, for longer.
 *
 * Invariants
 * 1. A circuit opens only after `failuresUntilOpen` different records have failed without a success in between
 * 2. A failure during the open time, of an attempt that was already running when the circuit opened, does not extend it
 *
 * Gotchas
 * - The console is built with this file, so it imports nothing.
 */

const failuresUntilOpen = 10
const firstOpenMillis = 30_000
const longestOpenMillis = 600_000

/** All times come from the same clock, in ms. */
export interface HandlerCircuit {
  /** Ordering keys of the records that failed since the last success, at most `failuresUntilOpen`. */
  readonly failed: ReadonlyArray<string>
  /** Number of times that the circuit has opened since the last success. */
  readonly openings: number
  /** When the open time ends and a delivery may be tried; null if the circuit is closed. */
  readonly openUntil: number | null
}

export const closed: HandlerCircuit = { failed: [], openings: 0, openUntil: null }

/**
 * True during the open time. If the clock was set back, the open time is over, because a handler must not wait until the clock has caught
 * up   (W4).
 */
export const isOpen = ({ openUntil }: HandlerCircuit, now: number): boolean =>
  openUntil !== null && now < openUntil && openUntil - now <= longestOpenMillis

/** `failed`: the ordering key of the record for which the handler failed; null if it succeeded. */
export const afterAttempt = (circuit: HandlerCircuit, failed: string | null, now: number): HandlerCircuit => {
  if (failed === null) return closed
  const needsNoEntry = circuit.failed.length >= failuresUntilOpen || circuit.failed.includes(failed)
  const next = needsNoEntry ? circuit : { ...circuit, failed: [...circuit.failed, failed] }
  if (next.failed.length < failuresUntilOpen || isOpen(next, now)) return next
  const openUntil = now + Math.min(longestOpenMillis, firstOpenMillis * 2 ** Math.min(next.openings, 10))
  return { ...next, openings: next.openings + 1, openUntil }
}

export interface HandlerName {
  readonly plugin: string
  readonly handler: string
}

export interface OpenCircuit extends HandlerName {
  /** RFC 3339 */
  readonly until: string
}

/** Those of the handlers whose circuit is in its open time: their deliveries wait. */
export const openCircuitsOf = (
  handlers: ReadonlyArray<HandlerName>,
  plugins: ReadonlyArray<{
    readonly plugin: string
    readonly handlers: ReadonlyArray<{
      readonly handler: string
      readonly circuit_open: { readonly until: string } | null
    }>
  }>,
  now: number
): ReadonlyArray<OpenCircuit> =>
  plugins.flatMap(({ handlers: own, plugin }) =>
    own.flatMap(({ circuit_open: circuit, handler }) =>
      circuit !== null && isOpen({ ...closed, openUntil: Date.parse(circuit.until) }, now) &&
        handlers.some((one) => one.plugin === plugin && one.handler === handler)
        ? [{ plugin, handler, until: circuit.until }]
        : []
    )
  )
