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
import { configurationOf } from "../plugin/Configured.ts"
import { Permanent } from "../plugin/Failure.ts"
import type { Published } from "../plugin/Reception.ts"
import type { Store, StoreError } from "../store/Store.ts"
import type { Accounts } from "./Accounts.ts"
import { contained } from "./Containment.ts"
import * as Ports from "./DryRun.ts"
import { failureOf, TimedOut } from "./Failing.ts"
import * as Job from "./Job.ts"
import type { DryRun, PluginRefused, Rehearsed, Stretch } from "./Plugins.ts"
import { type Found, rangeOf, walk } from "./Replay.ts"
import type { Subscription } from "./Subscription.ts"

export interface Services extends Ports.Readable {
  readonly accounts: Accounts
  readonly store: Pick<Store["Service"], "identity" | "log">
}

/** What is rehearsed, of one integration: one event, a batch's events, or a tick. */
interface Scene {
  readonly integration: string
  /** Empty: a tick. */
  readonly events: ReadonlyArray<Published>
  /** The batch in which its events were last delivered; null: in none. */
  readonly batch: string | null
  /** Of a tick: behind `from` up to `to`. */
  readonly from: number
  readonly to: number
}

/** What these events would be delivered as; `batches`: by position, the batch in which an event was last delivered. */
const scenesOf = (
  { handler: { occasion } }: Subscription,
  found: ReadonlyArray<Found>,
  batches: ReadonlyMap<number, string>
): ReadonlyArray<Scene> => {
  const batchOf = ({ entry }: Found) => batches.get(entry.position) ?? null
  return [...Map.groupBy(found, (one) => JSON.stringify([one.entry.integration, batchOf(one)])).values()]
    .flatMap((own) =>
      Arr.chunksOf(own, occasion._tag === "Batch" ? occasion.size : 1).map((some): Scene => ({
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
  { batch, events, from, integration, to }: Scene,
  now: number,
  fresh: string | null
): Job.Job => ({
  members: [{
    id: 0,
    claim: 0,
    crashes: 0,
    handler: key,
    integration,
    lane: "",
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
const nobody = { scope: "dry run", epoch: 0 }

/** Tries one. */
const rehearse = Effect.fn("Rehearsal.rehearse")(function*(
  services: Services,
  subscription: Subscription,
  scene: Scene,
  fresh: boolean
): Effect.fn.Return<Rehearsed> {
  const { handler, plugin } = subscription
  const { events, from, integration } = scene
  const { asked, ...ports } = Ports.ports(services)
  const now = yield* Clock.currentTimeMillis
  const job = jobOf(subscription, scene, now, fresh ? "dry run" : null)
  const attempt = Job.attemptOf(subscription, job, nobody, ports.deliveries)
  const { accounts, store } = services
  const exit = yield* configurationOf(plugin, integration).pipe(
    Effect.mapError(({ message }) => new Permanent({ message })),
    Effect.flatMap((values) => Job.run({ accounts, store, ...ports, replacing: new Map() }, attempt, job, values)),
    // an operator waits for it: time in which a request waits for its turn at the API counts too
    Effect.timeoutOrElse({ duration: Job.timeoutOf(handler), orElse: () => Effect.fail(new TimedOut()) }),
    contained({ plugin: plugin.name, handler: handler.name, delivery: 0 }),
    Effect.exit
  )
  attempt.end()
  return {
    integration,
    position: from,
    records: events.map(({ model, recordId }) => `${model}/${recordId}`),
    would: [...asked],
    failure: Exit.isSuccess(exit) ? null : failureOf(exit.cause, Job.timeoutOf(handler), now)
  }
})

/** Tries what a replay of this stretch would deliver, at most `limit` deliveries of it. */
export const dryRun = Effect.fn("Rehearsal.dryRun")(function*(
  services: Services,
  subscription: Subscription,
  { fresh, limit, ...stretch }: Stretch & { readonly fresh: boolean; readonly limit: number },
  integrations: ReadonlyArray<string>
): Effect.fn.Return<DryRun, PluginRefused | StoreError, Store> {
  const range = yield* rangeOf(stretch)
  const scenes: Array<Scene> = []
  let deliveries = 0
  const take = (some: ReadonlyArray<Scene>) =>
    Effect.sync(() => {
      deliveries += some.length
      scenes.push(...some.slice(0, limit - scenes.length))
    })
  yield* subscription.handler.occasion._tag === "Tick"
    ? take(integrations.map((integration) => ({
      integration,
      events: [],
      batch: null,
      from: range.from - 1,
      to: range.to
    })))
    : walk(subscription, range, integrations, (found) =>
      Effect.flatMap(
        subscription.handler.occasion._tag === "Batch"
          ? services.deliveries.batches(subscription.key, found.map(({ entry }) => entry.position))
          : Effect.succeed<ReadonlyMap<number, string>>(new Map()),
        (batches) => take(scenesOf(subscription, found, batches))
      ))
  const rehearsed = yield* Effect.forEach(scenes, (scene) => rehearse(services, subscription, scene, fresh))
  return { ...range, deliveries, rehearsed, left: deliveries - rehearsed.length }
})
