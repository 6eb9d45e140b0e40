/** The claimed deliveries of one handler, queued or running. */
import * as Metric from "effect/Metric"
import * as HandlerCircuit from "../../domain/HandlerCircuit.ts"
import type * as Job from "../handler/Job.ts"
import type { Subscription } from "../handler/Subscription.ts"
import type { OwnedShard } from "./DeliveryShards.ts"

const defaultConcurrency = 4

export const deliveriesCounter = Metric.counter("rollcall_deliveries_total", {
  description: "Deliveries that ended, by plugin, handler and outcome: settled or dead",
  incremental: true
})
const delayHistogram = Metric.histogram("rollcall_delivery_delay_seconds", {
  description: "Time from the detection of a change to the end of its delivery, by plugin and handler",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200]
})

/**
 * A handler's circuit as this process knows it: the state that the processes share in the store, and the results of this process's
 * attempts that are not settled yet. So a process stops a failing handler at once, and the store stops the handler in all processes.
 * Times are our clock, in ms.
 */
const makeBreaker = () => {
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

type CircuitBreaker = ReturnType<typeof makeBreaker>

export interface OwnedJob extends Job.Job {
  readonly owned: OwnedShard
}

export interface HandlerQueue extends Subscription {
  readonly concurrency: number
  readonly breaker: CircuitBreaker
  readonly queued: Array<OwnedJob>
  runners: number
  /** Jobs that have no outcome yet, queued or running. */
  inFlight: number
  readonly metrics: {
    readonly settled: Metric.Metric<number, unknown>
    readonly delay: Metric.Metric<number, unknown>
  }
}

export const make = (subscription: Subscription): HandlerQueue => {
  const { handler, plugin } = subscription
  const labels = { plugin: plugin.name, handler: handler.name }
  return {
    ...subscription,
    concurrency: handler.options.concurrency ?? defaultConcurrency,
    breaker: makeBreaker(),
    queued: [],
    runners: 0,
    inFlight: 0,
    metrics: {
      settled: Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "settled" }),
      delay: Metric.withAttributes(delayHistogram, labels)
    }
  }
}
