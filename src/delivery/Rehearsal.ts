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
import type { Store } from "../store/Store.ts"
import type { Accounts } from "./Accounts.ts"
import * as DryRun from "./DryRun.ts"
import { failureOf } from "./Failing.ts"
import * as Job from "./Job.ts"
import type { Rehearsed } from "./Plugins.ts"
import type { Found } from "./Replay.ts"
import type { Subscription } from "./Subscription.ts"

export interface Services extends DryRun.Readable {
  readonly accounts: Accounts
  readonly store: Pick<Store["Service"], "identity" | "log">
}

/** What is rehearsed, of one integration: one event, a batch's events, or a tick. */
export interface Scene {
  readonly integration: string
  /** Empty: a tick. */
  readonly events: ReadonlyArray<Published>
  /** Of a tick: behind `from` up to `to`. */
  readonly from: number
  readonly to: number
}

/** What these events would be delivered as. */
export const scenesOf = ({ handler: { occasion } }: Subscription, found: ReadonlyArray<Found>): ReadonlyArray<Scene> =>
  [...Map.groupBy(found, ({ entry }) => entry.integration)]
    .flatMap(([integration, own]) =>
      Arr.chunksOf(own, occasion._tag === "Batch" ? occasion.size : 1).map((some): Scene => ({
        integration,
        events: some.map(({ event }) => event),
        from: some[0].entry.position,
        to: Arr.lastNonEmpty(some).entry.position
      }))
    )
    .toSorted((a, b) => a.from - b.from)

/** As if it had been claimed. */
const jobOf = (
  { key }: Subscription,
  { events, from, integration, to }: Scene,
  now: number,
  fresh: string | null
): Job.Job => ({
  members: [{
    id: 0,
    claim: 0,
    handler: key,
    integration,
    lane: "",
    subject: events.length === 0
      ? { _tag: "Tick", scheduledAt: now, from, to }
      : { _tag: "Event", position: from },
    dueAt: now,
    createdAt: now,
    attempts: 0,
    batch: null,
    fresh
  }],
  events
})

/** Nobody's: nothing of a dry run reaches the store. */
const nobody = { scope: "dry run", epoch: 0 }

/** Tries one. */
export const rehearse = Effect.fn("Rehearsal.rehearse")(function*(
  services: Services,
  subscription: Subscription,
  scene: Scene,
  fresh: boolean
): Effect.fn.Return<Rehearsed> {
  const { handler, plugin } = subscription
  const { events, from, integration } = scene
  const { asked, ...ports } = DryRun.ports(services)
  const now = yield* Clock.currentTimeMillis
  const job = jobOf(subscription, scene, now, fresh ? "dry run" : null)
  const attempt = Job.attemptOf(subscription, job, nobody, ports.deliveries)
  const { accounts, store } = services
  const exit = yield* configurationOf(plugin, integration).pipe(
    Effect.mapError(({ message }) => new Permanent({ message })),
    Effect.flatMap((values) => Job.run({ accounts, store, ...ports, replacing: new Map() }, attempt, job, values)),
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
