/**
 * Logs when an account stops answering and when it answers again: one line each, however many requests fail in between.
 *
 * Invariants
 * 1. The first line comes three seconds after the first failure, long before a request has used up its retries
 * 2. A failure that is over by then is not logged
 *
 * Gotchas
 * - An outage lasts until every integration that failed has answered: one that fails beside others that answer is one outage, not
 *   one per request.
 * - What the account itself is asked is rarely asked again: any answer ends its failure.
 * - An integration that is no longer read never answers again: after an hour without a request it counts no more.
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

/** Why there was no usable answer; null where there was one, be it a refusal; undefined where nothing is known. */
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
  /** When each integration failed last; null: the account itself. */
  const failing = new Map<string | null, number>()
  let outage: { logged: boolean; message: string } | null = null

  const begin = Effect.fnUntraced(function*(begun: NonNullable<typeof outage>) {
    yield* Effect.sleep(logDelay)
    if (outage !== begun) return
    begun.logged = true
    yield* Effect.logWarning("the API does not answer; requests are repeated, nothing is lost meanwhile").pipe(
      Effect.annotateLogs({ account, error: begun.message })
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
      return Effect.forkIn(begin(outage), scope)
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
