/**
 * Runs a handler over a range of the log without creating deliveries, and reports the requests that it would make.
 *
 * Gotchas
 * - Each delivery is tried once and in isolation: it does not see the changes that an earlier delivery would have made.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { Permanent } from "../../plugin/Failure.ts"
import { configurationOf } from "../../plugin/PluginConfiguration.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import { containUncaught } from "../engine/UncaughtErrors.ts"
import { failureOf, TimedOut } from "../handler/AttemptFailure.ts"
import type { IntegrationAccounts } from "../handler/IntegrationAccounts.ts"
import * as Job from "../handler/Job.ts"
import { jobOf, plannedDeliveriesOf, type PlannedDelivery } from "../handler/PlannedDelivery.ts"
import type { Subscription } from "../handler/Subscription.ts"
import * as Ports from "./DryRunPorts.ts"
import type { DryRunDelivery, DryRunResult, PluginRequestError, ReplayRequest } from "./PluginAdmin.ts"
import { forEachMatch, resolveRange } from "./Replay.ts"

export interface Services extends Ports.ReadOnlyPorts {
  readonly accounts: IntegrationAccounts
  readonly store: Pick<Store["Service"], "identity" | "readLog">
}

/** A placeholder, because a dry run writes nothing to the store. */
const noOwner = { scope: "dry run", epoch: 0 }

/** Tries one delivery. */
export const tryDelivery = Effect.fn("DryRun.tryDelivery")(function*(
  services: Services,
  subscription: Subscription,
  delivery: PlannedDelivery,
  fresh: boolean
): Effect.fn.Return<DryRunDelivery> {
  const { handler, plugin } = subscription
  const { events, from, integration } = delivery
  const { requests, ...ports } = Ports.ports(services)
  const now = yield* Clock.currentTimeMillis
  const job = jobOf(subscription, delivery, now, { fresh: fresh ? "dry run" : null })
  const attempt = Job.attemptOf(subscription, job, noOwner, ports.journal)
  const { accounts, store } = services
  const exit = yield* configurationOf(plugin, integration).pipe(
    Effect.mapError(({ message }) => new Permanent({ message })),
    Effect.flatMap((values) =>
      Job.runHandler({ accounts, store, ...ports, packageLocks: new Map() }, attempt, job, values)
    ),
    // an operator is waiting, so the time that requests wait for a slot is included in the time limit
    Effect.timeoutOrElse({ duration: Job.timeoutOf(handler), orElse: () => Effect.fail(new TimedOut()) }),
    containUncaught({ plugin: plugin.name, handler: handler.name, delivery: 0 }),
    Effect.exit
  )
  attempt.end()
  return {
    integration,
    position: from,
    records: events.map(({ model, recordId }) => `${model}/${recordId}`),
    requests: [...requests],
    failure: Exit.isSuccess(exit) ? null : failureOf(exit.cause, Job.timeoutOf(handler), now)
  }
})

/** Tries the deliveries that a replay of this range would create, at most `limit` of them. */
export const dryRun = Effect.fn("DryRun.dryRun")(function*(
  services: Services,
  subscription: Subscription,
  { fresh, limit, ...request }: ReplayRequest & { readonly fresh: boolean; readonly limit: number },
  integrations: ReadonlyArray<string>
): Effect.fn.Return<DryRunResult, PluginRequestError | StoreError, Store> {
  const range = yield* resolveRange(request)
  const planned: Array<PlannedDelivery> = []
  let deliveries = 0
  const take = (some: ReadonlyArray<PlannedDelivery>) =>
    Effect.sync(() => {
      deliveries += some.length
      planned.push(...some.slice(0, limit - planned.length))
    })
  yield* subscription.handler.activation._tag === "Tick"
    ? take(integrations.map((integration) => ({
      integration,
      events: [],
      batch: null,
      from: range.from - 1,
      to: range.to
    })))
    : forEachMatch(subscription, range, integrations, (found) =>
      Effect.flatMap(
        subscription.handler.activation._tag === "Batch"
          ? services.deliveries.batches(subscription.key, found.map(({ entry }) => entry.position))
          : Effect.succeed<ReadonlyMap<number, string>>(new Map()),
        (batches) => take(plannedDeliveriesOf(subscription, found, batches).toSorted((a, b) => a.from - b.from))
      ))
  const results = yield* Effect.forEach(planned, (delivery) => tryDelivery(services, subscription, delivery, fresh))
  return { ...range, deliveries, results, omitted: deliveries - results.length }
})
