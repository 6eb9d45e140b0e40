/**
 * Logs when requests of an account begin to fail and when the account responds again: one line each, however many requests fail in
 * between.
 * It only logs: `CircuitBreakers.ts` stops requests, `RetryPolicy.ts` repeats them, and `Failures.ts` classifies their failures.
 *
 * Invariants
 * 1. The outage is logged `logDelay` after the first failure, long before a request has used up its retries
 * 2. An outage that ends within `logDelay` is not logged
 *
 * Gotchas
 * - An outage lasts until every integration that failed has responded. If one integration keeps failing while others respond, that is one
 *   outage, not one per request.
 * - Requests that belong to the account, not to an integration, are rare. Any response of the account therefore clears their failure.
 * - An integration that is no longer read never responds again. Its failure expires after `expireAfterMillis`.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { outcomeOf } from "./Failures.ts"
import { millisOf } from "./MonotonicClock.ts"
import type { SourceError } from "./Source.ts"

const logDelay = Duration.seconds(3)
const expireAfterMillis = Duration.toMillis("1 hour")

const maxNames = 5

/** The integrations that fail, as an annotation; none if only requests of the account itself fail. */
const namesOf = (failing: Iterable<string | null>): { readonly integrations?: string } => {
  const names = [...failing].filter((name) => name !== null)
  const rest = names.length > maxNames ? ` and ${names.length - maxNames} more` : ""
  return names.length === 0 ? {} : { integrations: `${names.slice(0, maxNames).join(", ")}${rest}` }
}

/** Watches requests of one account. */
export const make = Effect.fnUntraced(function*(account: string) {
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const now = () => millisOf(clock)
  /** When each integration last failed (monotonic ms); the key null is the account itself. */
  const failing = new Map<string | null, number>()
  let outage: { logged: boolean; message: string } | null = null

  const logUnlessOver = Effect.fnUntraced(function*(started: NonNullable<typeof outage>) {
    yield* Effect.sleep(logDelay)
    if (outage !== started) return
    started.logged = true
    yield* Effect.logWarning("requests to the API fail and are retried; no changes are lost").pipe(
      Effect.annotateLogs({ account, ...namesOf(failing.keys()), error: started.message })
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
    for (const [other, at] of failing) if (now() - at > expireAfterMillis) failing.delete(other)
    if (outage === null || failing.size > 0) return Effect.void
    const { logged } = outage
    outage = null
    return logged ? Effect.annotateLogs(Effect.logInfo("the API answers again"), { account }) : Effect.void
  }

  return {
    /** null: a request of the account itself, such as for its tools. */
    watch: (integration: string | null) => <A, E extends SourceError, R>(request: Effect.Effect<A, E, R>) =>
      Effect.onExit(request, (exit) => {
        const outcome = outcomeOf(exit)
        if (outcome._tag === "interrupted") return Effect.void
        // An error response is a response, too.
        return note(integration, outcome._tag === "Transient" ? outcome.message : null)
      })
  }
})
