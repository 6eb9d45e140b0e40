/**
 * Logs when an account stops responding and when it responds again: one line each, however many requests fail in between.
 *
 * Invariants
 * 1. The outage is logged three seconds after the first failure, long before a request has used up its retries
 * 2. An outage that ends within those three seconds is not logged
 *
 * Gotchas
 * - An outage lasts until every failed integration has responded. An integration that fails while others respond is one
 *   outage, not one per request.
 * - Requests of the account itself are rare, so any response of the account clears their failure.
 * - An integration that is no longer read never responds again: its failure expires after one hour.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { SourceError } from "./Source.ts"

/** Watches requests of one account. */
export interface Outages {
  /** null: a request of the account itself, such as for its tools. */
  readonly watch: (
    integration: string | null
  ) => <A, E extends SourceError, R>(request: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

const logDelay = Duration.seconds(3)
const forgetAfterMillis = Duration.toMillis("1 hour")

/** The failure message; null if the API responded, even with an error; undefined after an interruption or a defect. */
const failureOf = (exit: Exit.Exit<unknown, SourceError>): string | null | undefined => {
  if (Exit.isSuccess(exit)) return null
  const error = Cause.findErrorOption(exit.cause)
  if (Option.isNone(error)) return undefined
  const { reason } = error.value
  return reason._tag === "Transient" ? reason.message : null
}

export const make = Effect.fnUntraced(function*(account: string): Effect.fn.Return<Outages, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  /** When each integration last failed (monotonic ms); the key null is the account itself. */
  const failing = new Map<string | null, number>()
  let outage: { logged: boolean; message: string } | null = null

  const logUnlessOver = Effect.fnUntraced(function*(started: NonNullable<typeof outage>) {
    yield* Effect.sleep(logDelay)
    if (outage !== started) return
    started.logged = true
    yield* Effect.logWarning("the API does not answer; requests are retried, no changes are lost").pipe(
      Effect.annotateLogs({ account, error: started.message })
    )
  })

  const note = (integration: string | null, failure: string | null): Effect.Effect<unknown> => {
    if (failure !== null) {
      failing.set(integration, now())
      if (outage !== null) {
        outage.message = failure
        return Effect.void
      }
      outage = { logged: false, message: failure }
      return Effect.forkIn(logUnlessOver(outage), scope)
    }
    failing.delete(integration)
    failing.delete(null)
    for (const [other, at] of failing) if (now() - at > forgetAfterMillis) failing.delete(other)
    if (outage === null || failing.size > 0) return Effect.void
    const { logged } = outage
    outage = null
    return logged ? Effect.annotateLogs(Effect.logInfo("the API answers again"), { account }) : Effect.void
  }

  return {
    watch: (integration) => (request) =>
      Effect.onExit(request, (exit) => {
        const failure = failureOf(exit)
        return failure === undefined ? Effect.void : note(integration, failure)
      })
  }
})
