/**
 * Leaves an integration alone that keeps failing: after so many failures in a row it is asked nothing for a while, then
 * one request finds out whether it answers again.
 *
 * Invariants
 * 1. What is refused here costs no request and says why
 * 2. One integration's failures never hold back another's requests   (R3)
 * 3. While an integration is tried, one request is under way and no other
 *
 * Gotchas
 * - Time is read from a clock that nobody sets (W4); the breaker of `effect/persistence` reads the wall clock, and one
 *   set back a day would keep it open for a day.
 * - A refusal is an answer: it ends the row. One for the rate limit says nothing, nor does an interruption.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { SourceError } from "./Source.ts"

type Tagged = { readonly _tag: string }

export interface CircuitBreakers {
  /** Runs the request, unless the integration is left alone. */
  readonly guard: (
    integration: string
  ) => <A, E extends Tagged, R>(
    request: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | CircuitOpen, R>
}

export interface CircuitBreakerOptions {
  /** How long the integration is left alone the first time; doubles with every failed trial, up to a minute. */
  readonly firstPause: Duration.Duration
}

export class CircuitOpen extends Data.TaggedError("CircuitOpen")<{
  readonly message: string
  readonly left: Duration.Duration
}> {}

/** Failures in a row after which an integration is left alone. */
export const failureThreshold = 10
const maxPause = Duration.minutes(1)

interface Circuit {
  failures: number
  /** Openings in a row. */
  openings: number
  openUntil: number
  isProbing: boolean
  lastFailure: string
}

/** What an exit says about the integration: the failure, that it answers, or nothing. */
const healthOf = (exit: Exit.Exit<unknown, Tagged>): SourceError["reason"] | "answers" | "nothing" => {
  if (Exit.isSuccess(exit)) return "answers"
  const error = Option.filter(Cause.findErrorOption(exit.cause), (error) => error instanceof SourceError)
  if (Option.isNone(error) || error.value.reason._tag === "RateLimited") return "nothing"
  const { reason } = error.value
  return reason._tag === "Transient" || reason._tag === "Unreadable" ? reason : "answers"
}

export const make = Effect.fnUntraced(
  function*({ firstPause }: CircuitBreakerOptions): Effect.fn.Return<CircuitBreakers> {
    const clock = yield* Clock.Clock
    const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
    const circuits = new Map<string, Circuit>()

    const refusal = ({ failures, lastFailure, openUntil }: Circuit): CircuitOpen => {
      const left = Duration.millis(Math.max(0, Math.ceil(openUntil - now())))
      const next = Duration.isZero(left) ? "it is being tried" : `it is tried again in ${Duration.format(left)}`
      return new CircuitOpen({
        left,
        message: `left alone after ${failures} failures in a row, ${next}; ${lastFailure}`
      })
    }

    const note = (integration: string, circuit: Circuit, trial: boolean, exit: Exit.Exit<unknown, Tagged>): void => {
      if (trial) circuit.isProbing = false
      const said = healthOf(exit)
      if (said === "nothing") return
      if (said === "answers") return void circuits.delete(integration)
      circuit.failures++
      circuit.lastFailure = said.message
      // What left before the circuit opened fails late, and is no trial.
      if (circuit.failures < failureThreshold || (circuit.openings > 0 && !trial)) return
      const pause = Duration.min(Duration.times(firstPause, 2 ** Math.min(circuit.openings, 20)), maxPause)
      circuit.openings++
      circuit.openUntil = now() + Duration.toMillis(pause)
    }

    const guard: CircuitBreakers["guard"] =
      (integration) => <A, E extends Tagged, R>(request: Effect.Effect<A, E, R>) =>
        Effect.suspend((): Effect.Effect<A, E | CircuitOpen, R> => {
          const circuit = circuits.get(integration) ??
            { failures: 0, openings: 0, openUntil: -Infinity, isProbing: false, lastFailure: "" }
          circuits.set(integration, circuit)
          if (circuit.isProbing || now() < circuit.openUntil) return Effect.fail(refusal(circuit))
          const trial = circuit.openings > 0
          circuit.isProbing = trial
          return Effect.onExit(request, (exit) => Effect.sync(() => note(integration, circuit, trial, exit)))
        })

    return { guard }
  }
)
