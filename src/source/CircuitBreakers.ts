/**
 * One circuit breaker per integration. After several failures in a row the circuit opens, and requests fail immediately. After a pause,
 * one probe request finds out whether the integration responds again. `RetryPolicy.ts` decides about a single request, and `Outages.ts` logs
 * outages of a whole account.
 *
 * Invariants
 * 1. A request that an open circuit rejects is not sent, and its error states the reason
 * 2. One integration's failures never delay another integration's requests   (R3)
 * 3. While the probe is in flight, all other requests of that integration are rejected
 *
 * Gotchas
 * - Time comes from the monotonic clock. The breaker of `effect/persistence` uses the wall clock: if that is set back by a day, the
 *   circuit stays open for a day   (W4).
 * - No response, a 5xx and an unreadable response count as failures. Any other error response proves that the integration responds, so it
 *   resets the count. A rate-limit response or an interruption leaves the count unchanged.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { answerOf, outcomeOf } from "./Failures.ts"
import { millisOf } from "./MonotonicClock.ts"
import { withHint } from "./SourceError.ts"

type Tagged = { readonly _tag: string }

/** `left`: until the next probe; zero while a probe is in flight. */
export class CircuitOpen extends Data.TaggedError("CircuitOpen")<{
  /** The same for all requests that fail for the same cause: streams with the same message are shown as one. */
  readonly message: string
  /** The message of the last failure, with its hint. */
  readonly failure: string
  readonly left: Duration.Duration
  /** Of the last failure; see `answerOf`. */
  readonly answer: ReturnType<typeof answerOf>
}> {}

/** Failures in a row after which the circuit opens. */
export const failureThreshold = 10
const maxPause = Duration.minutes(1)

interface Circuit {
  failures: number
  /** Number of times that the circuit opened without a successful request in between. */
  openings: number
  openUntil: number
  isProbing: boolean
  lastFailure: { readonly message: string; readonly hint: string }
  lastAnswer: CircuitOpen["answer"]
}

/** `firstPause`: how long a circuit stays open the first time. The time doubles with every failed probe, up to a minute. */
export const make = Effect.fnUntraced(
  function*({ firstPause }: { readonly firstPause: Duration.Duration }) {
    const clock = yield* Clock.Clock
    const now = () => millisOf(clock)
    const circuits = new Map<string, Circuit>()

    const rejection = ({ lastAnswer, lastFailure, openUntil }: Circuit): CircuitOpen =>
      new CircuitOpen({
        answer: lastAnswer,
        failure: withHint(lastFailure),
        left: Duration.millis(Math.max(0, Math.ceil(openUntil - now()))),
        message: `circuit open after ${failureThreshold} failures in a row; last failure: ${lastFailure.message}`
      })

    const note = (integration: string, circuit: Circuit, isProbe: boolean, exit: Exit.Exit<unknown, Tagged>): void => {
      if (isProbe) circuit.isProbing = false
      const outcome = outcomeOf(exit)
      if (outcome._tag === "interrupted" || outcome._tag === "RateLimited") return
      if (outcome._tag !== "Transient" && outcome._tag !== "Unreadable") return void circuits.delete(integration)
      circuit.failures++
      circuit.lastFailure = { message: outcome.message, hint: outcome.hint }
      circuit.lastAnswer = outcome._tag === "Transient" ? answerOf(outcome) : {}
      // A request that was sent before the circuit opened may fail later; it is not the probe and must not reopen it.
      if (circuit.failures < failureThreshold || (circuit.openings > 0 && !isProbe)) return
      const pause = Duration.min(Duration.times(firstPause, 2 ** Math.min(circuit.openings, 20)), maxPause)
      circuit.openings++
      circuit.openUntil = now() + Duration.toMillis(pause)
    }

    /** Runs the request, or fails with `CircuitOpen` without running it. */
    const guard = (integration: string) => <A, E extends Tagged, R>(request: Effect.Effect<A, E, R>) =>
      Effect.suspend((): Effect.Effect<A, E | CircuitOpen, R> => {
        const circuit = circuits.get(integration) ??
          {
            failures: 0,
            openings: 0,
            openUntil: -Infinity,
            isProbing: false,
            lastFailure: { message: "", hint: "" },
            lastAnswer: {}
          }
        circuits.set(integration, circuit)
        if (circuit.isProbing || now() < circuit.openUntil) return Effect.fail(rejection(circuit))
        const isProbe = circuit.openings > 0
        circuit.isProbing = isProbe
        return Effect.onExit(request, (exit) => Effect.sync(() => note(integration, circuit, isProbe, exit)))
      })

    return { guard }
  }
)
