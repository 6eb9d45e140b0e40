/**
 * The ownership scopes that this process owns: it takes those that are placed here, and hands them over when they move away. The owner of
 * `dispatchScope` creates the deliveries of all shards; the owner of a shard runs its deliveries. `fleet/Placement.ts` explains the verbs.
 *
 * Invariants
 * 1. If two processes deliver the same shard, only the one that took it later has any effect   (I10, X16)
 *
 * Gotchas
 * - A scope is taken when it is placed here. If the engine then loses it, a retry must not take it back at once, or two processes would take
 *   it from each other. In a fleet, it is taken again later if it is still placed here: see `PlacedScopes`.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { deliveryScopes, dispatchScope, shardOfScope } from "../../domain/Shard.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { Owner } from "../../store/State.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import * as Dispatching from "./Dispatching.ts"
import type { EventCache } from "./EventCache.ts"
import * as PlacedScopes from "./PlacedScopes.ts"
import type { Worker } from "./Worker.ts"

/** `takesAgain`: whether scopes that were lost are taken again. `background`: for deleting old journals. */
export const make = (
  { deliveries, store }: { readonly store: Store["Service"]; readonly deliveries: Deliveries["Service"] },
  eventCache: EventCache,
  worker: Worker,
  options: Dispatching.Options & { readonly takesAgain: boolean },
  background: Scope.Scope
) => {
  let dispatching: Dispatching.Dispatching | null = null
  /** The last epoch of each shard that this process has owned. */
  const lastEpochs = new Map<string, number>()

  const ifShard = (act: (shard: number) => void) => (scope: string) => {
    if (scope !== dispatchScope) act(shardOfScope(scope))
  }
  const places = PlacedScopes.make(
    { handOver: ifShard(worker.handOver), interrupt: ifShard(worker.interrupt), lose: ifShard(worker.lose) },
    options.takesAgain
  )

  /** Another process has taken these scopes over, although they are still placed here: see `PlacedScopes` for the reasons. */
  const lose = Effect.fnUntraced(function*(owners: ReadonlyArray<Owner>) {
    for (const owner of owners) {
      const { scope } = owner
      yield* places.lose(owner)
      if (scope === dispatchScope) dispatching = null
      else worker.lose(shardOfScope(scope))
    }
    if (owners.length === 0) return
    yield* Effect.annotateLogs(Effect.logWarning("another process delivers in place of this one"), {
      scopes: owners.map(({ scope }) => scope).join(" ")
    })
  })

  /** Runs an effect that only the owner of `dispatchScope` may run. Null if another process is the owner now. */
  const asDispatcher = <A>(owner: Owner, effect: Effect.Effect<A, StoreError>): Effect.Effect<A | null, StoreError> =>
    Effect.catchIf(
      effect,
      ({ reason }) => reason._tag === "Fenced" && reason.scope === dispatchScope,
      () => Effect.as(lose([owner]), null)
    )

  const beginDispatching = Effect.gen(function*() {
    const owner = places.ownerOf(dispatchScope)
    // the scope may have moved away and come back in the meantime
    if (owner !== dispatching?.owner) dispatching = null
    if (owner === null || dispatching !== null) return
    const begun = Dispatching.begin({ store, deliveries }, eventCache, owner, options, background)
    dispatching = yield* asDispatcher(owner, begun)
    for (const subscription of dispatching?.subscriptions ?? []) worker.subscribe(subscription)
  })

  const takeShards = Effect.gen(function*() {
    const taken = deliveryScopes.flatMap((scope) => {
      const owner = worker.ownsShard(shardOfScope(scope)) ? null : places.ownerOf(scope)
      return owner === null ? [] : [owner]
    })
    if (taken.length === 0) return
    const continued = taken.filter(({ epoch, scope }) => lastEpochs.get(scope) === epoch - 1)
    const lost = yield* deliveries.recoverShards(taken, continued, worker.blockedBefore(continued))
    for (const owner of taken) {
      if (lost.includes(owner)) continue
      lastEpochs.set(owner.scope, owner.epoch)
      if (places.ownerOf(owner.scope) === owner) worker.addShard(owner)
    }
    yield* lose(lost)
  })

  return {
    /** Registers all scopes with the placement. */
    register: places.register([dispatchScope, ...deliveryScopes]),
    /** Takes ownership of the scopes that have been placed here. */
    take: Effect.gen(function*() {
      yield* places.take(store.takeOwnerships)
      yield* beginDispatching
      yield* takeShards
    }),
    lose,
    /** Settles ended attempts of the shards that are leaving, and ends the handover of each shard whose attempts have all ended. */
    finishHandovers: Effect.gen(function*() {
      const owners = worker.shards("leaving").map(({ owner }) => owner)
      // This transaction also shows whether another process has taken one of the shards over, so it runs even if there are no outcomes.
      if (owners.length > 0) {
        const ended = worker.outcomes("leaving")
        const { circuits, lost } = yield* deliveries.settleAndClaim(owners, ended.map(({ outcome }) => outcome), [])
        worker.settled(ended)
        yield* worker.updateCircuits(ended, circuits)
        yield* lose(lost)
      }
      for (const place of places.all()) {
        if (place.state !== "leaving") continue
        if (place.scope === dispatchScope || worker.removeIfIdle(shardOfScope(place.scope))) places.remove(place)
      }
    }),
    /** Null if this process does not create the deliveries. */
    dispatching: (): Dispatching.Dispatching | null => dispatching,
    /** Creates deliveries. Returns whether there may be more to create; null if that is not placed here. */
    dispatch: Effect.gen(function*() {
      const owner = places.ownerOf(dispatchScope)
      if (owner === null || dispatching === null) return null
      return (yield* asDispatcher(owner, dispatching.step)) ?? false
    }),
    /** The former owner of a shard, if this process has lost all shards that are placed here; otherwise null. */
    lostOwner: (): Owner | null => {
      const shards = places.all().filter(({ scope }) => scope !== dispatchScope)
      return shards.every(({ state }) => state === "lost") ? shards[0]?.owner ?? null : null
    },
    /** Whether a scope that was lost will be taken again. */
    willTakeAgain: places.willTakeAgain,
    /** Returns when a scope has come or is leaving since the last `take`. */
    awaitChange: places.awaitChange,
    close: places.close
  }
}
