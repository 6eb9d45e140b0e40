/**
 * The requests of one process of a fleet: each waits for a slot of the account's budget, which the processes share in the simulated store.
 *
 * Gotchas
 * - A request to the faulty API may take minutes, and no time limit ends it. So a lease lasts longer than the longest of them.
 * - Leases end by the clock of the database, which has no error here.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RequestScheduler from "../../../src/source/RequestScheduler.ts"
import * as SharedBudget from "../../../src/source/SharedBudget.ts"
import { Source, SourceError, Transient } from "../../../src/source/Source.ts"
import { RequestLeases } from "../../../src/store/RequestLeases.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import { longestRequest } from "../world/FaultyApi.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"

/** A lease lasts this much longer than a request, in ms. */
const leaseMargin = 15_000
/** How long slots stay leased after their process died, in ms. */
export const leaseMillis = (setting: WorldSettings): number => longestRequest(setting) + leaseMargin

const notSent = new SourceError({ reason: new Transient({ code: null, message: "simulated", notSent: true }) })

/** `leases`: as the process reaches them. `slots`: how many requests all processes may have in flight. */
export const layer = (
  source: Source["Service"],
  leases: RequestLeases["Service"],
  { setting, slots, time }: { readonly setting: WorldSettings; readonly slots: number; readonly time: VirtualTime }
): Layer.Layer<Source> => {
  const byDatabaseClock: RequestLeases["Service"] = {
    claim: (claims) => Effect.provideService(leases.claim(claims), Clock.Clock, time.clock(() => 0)),
    leasesOf: leases.leasesOf
  }
  return Layer.effect(
    Source,
    Effect.map(
      RequestScheduler.make({
        account: "default",
        concurrency: slots,
        timeout: Duration.millis(longestRequest(setting)),
        retryBase: Duration.seconds(1)
      }),
      (scheduler) =>
        Source.of({
          ...source,
          page: (request) =>
            source.page(request).pipe(
              scheduler.run(request.integration, request.priority),
              Effect.catchTag("SlotWaitAborted", () => Effect.fail(notSent))
            )
        })
    )
  ).pipe(Layer.provide(SharedBudget.layer), Layer.provide(Layer.succeed(RequestLeases)(byDatabaseClock)))
}
