/** The claimed deliveries of one handler, queued or running. */
import * as Metric from "effect/Metric"
import type * as Job from "../handler/Job.ts"
import type { Subscription } from "../handler/Subscription.ts"
import * as CircuitBreaker from "./CircuitBreaker.ts"
import type { OwnedShard } from "./DeliveryShards.ts"

const defaultConcurrency = 4

export const deliveriesCounter = Metric.counter("rollcall_deliveries_total", {
  description: "Deliveries that ended, by outcome: settled or dead",
  incremental: true
})
const delayHistogram = Metric.histogram("rollcall_delivery_delay_seconds", {
  description: "Seconds from the detection of a change to the end of its delivery",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200]
})

export interface OwnedJob extends Job.Job {
  readonly owned: OwnedShard
}

export interface HandlerQueue extends Subscription {
  readonly concurrency: number
  readonly breaker: CircuitBreaker.CircuitBreaker
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
    breaker: CircuitBreaker.make(),
    queued: [],
    runners: 0,
    inFlight: 0,
    metrics: {
      settled: Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "settled" }),
      delay: Metric.withAttributes(delayHistogram, labels)
    }
  }
}
