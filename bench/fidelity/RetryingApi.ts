/**
 * The faulty API behind a client that tries again what may pass, after as long as the API asks for: everybody has one, the
 * service too, where it is part of the adapter that the simulation leaves out.
 */
import * as Effect from "effect/Effect"
import { listsOnly, type Page, type Source, type SourceError } from "../../src/source/Source.ts"
import { FaultyApi, type ServedPage } from "../../test/simulation/world/FaultyApi.ts"

const maxAttempts = 5

const withRetries = (ask: Effect.Effect<Page, SourceError>, left = maxAttempts): Effect.Effect<Page, SourceError> =>
  Effect.catch(ask, (error) => {
    const { reason } = error
    if (!reason.retryable || left === 1) return Effect.fail(error)
    const told = "retryAfter" in reason ? reason.retryAfter : null
    return Effect.andThen(Effect.sleep(told ?? 1_000 * 2 ** (maxAttempts - left)), withRetries(ask, left - 1))
  })

export class RetryingApi extends FaultyApi {
  override source(clock: () => number, delivered: (delivery: ServedPage) => void): Source["Service"] {
    const { page } = super.source(clock, delivered)
    return listsOnly((request) => withRetries(page(request)))
  }
}
