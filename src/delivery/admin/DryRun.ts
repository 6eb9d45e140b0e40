/**
 * Runs a handler over a stretch of the log outside the deliveries' tables, and tells what it would do. Hides which deliveries
 * that would be, and how an attempt is made of what can only be read.
 *
 * Gotchas
 * - Each delivery is tried once, on its own: what a first one would have changed, the next does not see.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import { Permanent } from "../../plugin/Failure.ts"
import { configurationOf } from "../../plugin/PluginConfiguration.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import type { Subscription } from "../engine/Subscription.ts"
import { containUncaught } from "../engine/UncaughtErrors.ts"
import { failureOf, TimedOut } from "../handler/AttemptFailure.ts"
import type { IntegrationAccounts } from "../handler/IntegrationAccounts.ts"
import * as Job from "../handler/Job.ts"
import * as Ports from "./DryRunPorts.ts"
import type { DryRunDelivery, DryRunResult, PluginRequestError, ReplayRequest } from "./PluginAdmin.ts"
import { forEachMatch, type MatchedEvent, resolveRange } from "./Replay.ts"

export interface Services extends Ports.ReadOnlyPorts {
  readonly accounts: IntegrationAccounts
  readonly store: Pick<Store["Service"], "identity" | "readLog">
}

/** What is rehearsed, of one integration: one event, a batch's events, or a tick. */
interface PlannedDelivery {
  readonly integration: string
  /** Empty: a tick. */
  readonly events: ReadonlyArray<PublishedEvent>
  /** The batch in which its events were last delivered; null: in none. */
  readonly batch: string | null
  /** Of a tick: behind `from` up to `to`. */
  readonly from: number
  readonly to: number
}

/** What these events would be delivered as; `batches`: by position, the batch in which an event was last delivered. */
const plannedDeliveriesOf = (
  { handler: { activation } }: Subscription,
  found: ReadonlyArray<MatchedEvent>,
  batches: ReadonlyMap<number, string>
): ReadonlyArray<PlannedDelivery> => {
  const batchOf = ({ entry }: MatchedEvent) => batches.get(entry.position) ?? null
  return [...Map.groupBy(found, (one) => JSON.stringify([one.entry.integration, batchOf(one)])).values()]
    .flatMap((own) =>
      Arr.chunksOf(own, activation._tag === "Batch" ? activation.size : 1).map((some): PlannedDelivery => ({
        integration: some[0].entry.integration,
        events: some.map(({ event }) => event),
        batch: batchOf(some[0]),
        from: some[0].entry.position,
        to: Arr.lastNonEmpty(some).entry.position
      }))
    )
    .toSorted((a, b) => a.from - b.from)
}

/** As if it had been claimed. */
const jobOf = (
  { key }: Subscription,
  { batch, events, from, integration, to }: PlannedDelivery,
  now: number,
  fresh: string | null
): Job.Job => ({
  members: [{
    id: 0,
    claim: 0,
    crashes: 0,
    handler: key,
    integration,
    orderingKey: "",
    subject: events.length === 0
      ? { _tag: "Tick", scheduledAt: now, from, to }
      : { _tag: "Event", position: from },
    dueAt: now,
    createdAt: now,
    attempts: 0,
    batch,
    fresh
  }],
  events
})

/** Nobody's: nothing of a dry run reaches the store. */
const noOwner = { scope: "dry run", epoch: 0 }

/** Tries one. */
const tryDelivery = Effect.fn("DryRun.tryDelivery")(function*(
  services: Services,
  subscription: Subscription,
  scene: PlannedDelivery,
  fresh: boolean
): Effect.fn.Return<DryRunDelivery> {
  const { handler, plugin } = subscription
  const { events, from, integration } = scene
  const { requests, ...ports } = Ports.ports(services)
  const now = yield* Clock.currentTimeMillis
  const job = jobOf(subscription, scene, now, fresh ? "dry run" : null)
  const attempt = Job.attemptOf(subscription, job, noOwner, ports.deliveries)
  const { accounts, store } = services
  const exit = yield* configurationOf(plugin, integration).pipe(
    Effect.mapError(({ message }) => new Permanent({ message })),
    Effect.flatMap((values) =>
      Job.runHandler({ accounts, store, ...ports, packageLocks: new Map() }, attempt, job, values)
    ),
    // an operator waits for it: time in which a request waits for its turn at the API counts too
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

/** Tries what a replay of this stretch would deliver, at most `limit` deliveries of it. */
export const dryRun = Effect.fn("DryRun.dryRun")(function*(
  services: Services,
  subscription: Subscription,
  { fresh, limit, ...stretch }: ReplayRequest & { readonly fresh: boolean; readonly limit: number },
  integrations: ReadonlyArray<string>
): Effect.fn.Return<DryRunResult, PluginRequestError | StoreError, Store> {
  const range = yield* resolveRange(stretch)
  const scenes: Array<PlannedDelivery> = []
  let deliveries = 0
  const take = (some: ReadonlyArray<PlannedDelivery>) =>
    Effect.sync(() => {
      deliveries += some.length
      scenes.push(...some.slice(0, limit - scenes.length))
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
        (batches) => take(plannedDeliveriesOf(subscription, found, batches))
      ))
  const results = yield* Effect.forEach(scenes, (scene) => tryDelivery(services, subscription, scene, fresh))
  return { ...range, deliveries, results, omitted: deliveries - results.length }
})
