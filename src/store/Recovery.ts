/**
 * How long-running work (capture, relay, delivery) continues after a failure of the store or the sink: it reports why and since when it
 * is not running, and tries again. How such work finishes what it has started when it is interrupted.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { placeOf } from "../domain/ErrorPlace.ts"
import type { Outage, StoreError } from "./StoreError.ts"

/** The status of a worker. `standby`: another process does the work. `waiting`: it resumes automatically. `stopped`: an operator must act. */
export interface Condition {
  readonly state: "standby" | "starting" | "running" | "waiting" | "stopped"
  /** Set in the states `waiting` and `stopped`. */
  readonly reason: Outage | null
}

/** The condition after a failure. While the state stays the same, `since` does too. */
export const nextCondition = <C extends Condition>(
  before: C,
  state: "waiting" | "stopped",
  { hint, message }: Omit<Outage, "since">
): Effect.Effect<C> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const since = before.state === state && before.reason !== null ? before.reason.since : now
    return { ...before, state, reason: { message, hint, since } }
  })

/** The condition of a store after an error of each kind. */
const conditions: Readonly<Record<StoreError["reason"]["_tag"], string>> = {
  Fenced: "the store has another owner",
  Unavailable: "the store is unavailable",
  OlderCopy: "an older copy of the store answers",
  Misconfigured: "the store cannot be used",
  Incompatible: "the store was written by another version",
  Damaged: "the store is damaged",
  MissingKey: "this process lacks an encryption key of the store"
}

export const describeStoreError = ({ reason }: StoreError): Omit<Outage, "since"> => ({
  message: conditions[reason._tag],
  hint: reason.hint
})

/** An error that the code does not expect. Its own message is left out, because it may contain values   (I11). */
export class Unexpected extends Schema.TaggedError<Unexpected>()("Unexpected", { message: Schema.String }) {
  readonly hint = "this is a defect of Rollcall: restart the process, and report this message"
}

const toUnexpected = (defect: unknown): Unexpected => {
  const place = defect instanceof Error ? placeOf(defect) : undefined
  const name = defect instanceof Error ? defect.name : typeof defect
  return new Unexpected({ message: `an unexpected error: ${name}${place === undefined ? "" : ` at ${place}`}` })
}

/** Work that must not end silently reports a defect like its other errors. */
export const failOnDefect = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Unexpected, R> =>
  Effect.catchDefect(effect, (defect) => Effect.fail(toUnexpected(defect)))

export const longestBackoff = Duration.seconds(30)
const firstBackoff = Duration.millis(200)

/** Delay before the next try. `failures`: how many failures preceded this one without a success; the delay doubles with each. */
export const backoff = (failures: number): Duration.Duration =>
  Duration.min(Duration.times(firstBackoff, 2 ** Math.min(failures, 16)), longestBackoff)

/** Time between two tries of work that reports no condition. The store logs its outage itself (X10). */
export const storePause = Duration.seconds(2)

/** Tries again every `storePause` while the store is unavailable. Reports nothing. */
export const retryWhileStoreUnavailable = <A, R>(effect: Effect.Effect<A, StoreError, R>) =>
  Effect.retry(effect, { while: (error) => error.reason.retryable, schedule: Schedule.spaced(storePause) })

/** If the effect is interrupted, it is completed nevertheless, unless that takes longer than `limit`. */
export const finishOnInterrupt =
  (limit: Duration.Duration) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(
        Effect.forkChild(restore(effect), { startImmediately: true }),
        (fiber) =>
          restore(Fiber.join(fiber)).pipe(
            Effect.onInterrupt(() =>
              Fiber.await(fiber).pipe(Effect.timeoutOption(limit), Effect.andThen(Fiber.interrupt(fiber)))
            )
          )
      )
    )
