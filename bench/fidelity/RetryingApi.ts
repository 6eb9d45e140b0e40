/**
 * The faulty API behind a client that retries transient errors, after the time that the API requests. Every contender has such a
 * client. The service has one too, but in the adapter that the simulation replaces.
 */
import * as Effect from "effect/Effect"
import { type Page, type Source, type SourceError } from "../../src/source/Source.ts"
import { FaultyApi, type ServedPage } from "../../test/simulation/world/FaultyApi.ts"
import { listsOnly } from "../../test/support/source/Doubles.ts"

const maxAttempts = 5

const withRetries = (request: Effect.Effect<Page, SourceError>, left = maxAttempts): Effect.Effect<Page, SourceError> =>
  Effect.catch(request, (error) => {
    const { reason } = error
    if (!reason.retryable || left === 1) return Effect.fail(error)
    const retryAfter = "retryAfter" in reason ? reason.retryAfter : null
    return Effect.andThen(Effect.sleep(retryAfter ?? 1_000 * 2 ** (maxAttempts - left)), withRetries(request, left - 1))
  })

export class RetryingApi extends FaultyApi {
  override source(clock: () => number, delivered: (delivery: ServedPage) => void): Source["Service"] {
    const { page } = super.source(clock, delivered)
    return listsOnly((request) => withRetries(page(request)))
  }
}
