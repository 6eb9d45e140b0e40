/**
 * A handler's circuit as this process knows it: the state that the processes share in the store, and the results of this process's
 * attempts that are not settled yet. So a process stops a failing handler at once, and the store stops the handler in all processes.
 */
import * as HandlerCircuit from "../../domain/HandlerCircuit.ts"

/** Times are our clock, in ms. */
export const make = () => {
  let stored = HandlerCircuit.closed
  let known = HandlerCircuit.closed

  return {
    /** The result of an attempt that is not settled yet. `failed`: as in `HandlerCircuit.afterAttempt`. */
    noteResult: (failed: string | null, now: number) => {
      known = HandlerCircuit.afterAttempt(known, failed, now)
    },
    /** Takes the state of the store, which lacks the results in `unsettled`. Returns whether the circuit has opened in the store. */
    update: (
      next: HandlerCircuit.HandlerCircuit,
      unsettled: ReadonlyArray<string | null>,
      now: number
    ): boolean => {
      const hasOpened = stored.openUntil === null && next.openUntil !== null
      stored = next
      known = unsettled.reduce((circuit, failed) => HandlerCircuit.afterAttempt(circuit, failed, now), next)
      return hasOpened
    },
    isClosed: () => known.openUntil === null,
    /** Whether claimed deliveries may start. While the circuit is not closed, only a trial may, and it runs alone. */
    permits: (inFlight: number, now: number): boolean =>
      known.openUntil === null || (inFlight === 0 && !HandlerCircuit.isOpen(known, now))
  }
}

export type CircuitBreaker = ReturnType<typeof make>
