/**
 * The faulty API behind a client that tries again what may pass, after as long as the API asks for: everybody has one, the
 * service too, where it is part of the adapter that the simulation leaves out.
 */
import * as Effect from "effect/Effect"
import { listsOnly, type Page, type Source, type SourceError } from "../../src/source/Source.ts"
import { type Delivery, FaultyApi } from "../../test/simulation/FaultyApi.ts"

const attempts = 5

const patiently = (ask: Effect.Effect<Page, SourceError>, left = attempts): Effect.Effect<Page, SourceError> =>
  Effect.catch(ask, (error) => {
    const { reason } = error
    if (!reason.retryable || left === 1) return Effect.fail(error)
    const told = "retryAfter" in reason ? reason.retryAfter : null
    return Effect.andThen(Effect.sleep(told ?? 1_000 * 2 ** (attempts - left)), patiently(ask, left - 1))
  })

export class PatientApi extends FaultyApi {
  override source(clock: () => number, delivered: (delivery: Delivery) => void): Source["Service"] {
    const { page } = super.source(clock, delivered)
    return listsOnly((request) => patiently(page(request)))
  }
}
