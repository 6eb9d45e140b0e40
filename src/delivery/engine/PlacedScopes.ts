/**
 * The ownership scopes of deliveries that the placement has put into this process. The engine takes new ones together, in one transaction.
 *
 * Gotchas
 * - A scope can be lost although it is still placed here. There are two possible reasons. The other process was frozen just before it took
 *   the scope, and took it when it woke, although the scope was no longer placed there. Or the other process does not belong to the fleet. In
 *   both cases this process takes the scope again after `takeAgainAfterMillis`.
 * - Without a common placement a lost scope is never taken again, because two processes would take it from each other forever.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { Placement } from "../../fleet/Placement.ts"
import type { Owner } from "../../store/State.ts"
import type { Store, StoreError } from "../../store/Store.ts"

/** When a scope that was lost is taken again, if it is still placed here. */
const takeAgainAfterMillis = 10_000
/**
 * How long running attempts may continue when their shard is handed over. Then they are interrupted, and may take as long as
 * `interruptTime`. The next process has the rest of two seconds to notice and to take the shard.
 */
const handoverTime = "1100 millis"
const interruptTime = "400 millis"

const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

/** A scope that is placed in this process, until its handover has ended. If it comes back, it is another `PlacedScope`. */
export interface PlacedScope {
  readonly scope: string
  /** Null until the scope is taken. */
  owner: Owner | null
  /** See `fleet/Placement.ts`. A scope that was placed and taken is owned. */
  state: "placed" | "leaving" | "lost"
  readonly gone: Deferred.Deferred<void>
  /** Set while a transaction takes the scope. */
  taking: Deferred.Deferred<void> | null
  /** Time of the monotonic clock, in ms. */
  lostAt: number
}

/** The steps of a handover. The engine calls `remove` once the work of the scope has ended, and each time limit leads to the next step. */
export interface Steps {
  /** Starts nothing more for the scope. */
  readonly handOver: (scope: string) => void
  readonly interrupt: (scope: string) => void
  /** The time for the handover is over: the next owner may act from now on. */
  readonly lose: (scope: string) => void
}

/** `takesAgain`: whether scopes that were lost are taken again. */
export const make = (steps: Steps, takesAgain: boolean) => {
  const places = new Map<string, PlacedScope>()
  const changed = Latch.makeUnsafe(false)
  let isClosed = false

  /** The next process may take the scope. */
  const remove = (place: PlacedScope) => {
    if (places.get(place.scope) === place) places.delete(place.scope)
    Deferred.doneUnsafe(place.gone, Exit.void)
  }

  /** Runs when the scope moves. Returns once the attempts of the scope have ended, or when their time is up. */
  const handOver = Effect.fnUntraced(function*(place: PlacedScope) {
    // a transaction that took the scope later would take it from the next owner
    if (place.taking !== null) yield* Deferred.await(place.taking)
    if (isClosed || place.state === "lost" || place.owner === null) return remove(place)
    place.state = "leaving"
    steps.handOver(place.scope)
    changed.openUnsafe()
    const gone = Deferred.await(place.gone)
    yield* Effect.timeoutOption(gone, handoverTime)
    // afterwards the scope may be placed here again
    if (places.get(place.scope) !== place) return
    steps.interrupt(place.scope)
    changed.openUnsafe()
    yield* Effect.timeoutOption(gone, interruptTime)
    if (places.get(place.scope) !== place) return
    steps.lose(place.scope)
    remove(place)
  })

  const stay = (scope: string): Effect.Effect<never> =>
    Effect.suspend(() => {
      const place: PlacedScope = {
        scope,
        owner: null,
        state: "placed",
        gone: Deferred.makeUnsafe(),
        taking: null,
        lostAt: 0
      }
      places.set(scope, place)
      changed.openUnsafe()
      // in a fiber of its own, because a finalizer cannot be interrupted, so time limits do not work in it
      return Effect.ensuring(Effect.never, Effect.flatMap(Effect.forkDetach(handOver(place)), Fiber.await))
    })

  return {
    register: (scopes: ReadonlyArray<string>): Effect.Effect<void, never, Placement | Scope.Scope> =>
      Effect.flatMap(
        Placement,
        (placement) => Effect.forEach(scopes, (scope) => placement.singleton(scope, stay(scope)), { discard: true })
      ),
    all: (): ReadonlyArray<PlacedScope> => [...places.values()],
    /** Takes the scopes that have come since the last call. */
    take: (takeOwnerships: Store["Service"]["takeOwnerships"]): Effect.Effect<void, StoreError> =>
      Effect.flatMap(monotonicMillis, (now) => {
        changed.closeUnsafe()
        for (const place of places.values()) {
          if (!takesAgain || place.state !== "lost" || now - place.lostAt < takeAgainAfterMillis) continue
          place.state = "placed"
          place.owner = null
        }
        const taking = Deferred.makeUnsafe<void>()
        const placed = [...places.values()].filter(({ owner, state }) => owner === null && state === "placed")
        if (!Arr.isReadonlyArrayNonEmpty(placed)) return Effect.void
        for (const place of placed) place.taking = taking
        return takeOwnerships(Arr.map(placed, ({ scope }) => scope)).pipe(
          Effect.map((owners) => {
            for (const place of placed) place.owner = owners.get(place.scope) ?? null
          }),
          Effect.ensuring(Effect.sync(() => {
            for (const place of placed) place.taking = null
            Deferred.doneUnsafe(taking, Exit.void)
          }))
        )
      }),
    /** The owner of a scope that is placed here and taken. */
    ownerOf: (scope: string): Owner | null => {
      const place = places.get(scope)
      return place?.state === "placed" ? place.owner : null
    },
    /**
     * Notes that another process has taken over the scope from this owner. While the store was slow, the scope may have moved away and come
     * back: then it has another owner, or is not taken yet.
     */
    lose: (owner: Owner): Effect.Effect<void> =>
      Effect.map(monotonicMillis, (now) => {
        const place = places.get(owner.scope)
        if (place?.owner !== owner) return
        if (place.state === "placed") {
          place.state = "lost"
          place.lostAt = now
        } else remove(place)
      }),
    /** Whether a scope that was lost will be taken again. */
    willTakeAgain: (): boolean => takesAgain && [...places.values()].some(({ state }) => state === "lost"),
    remove,
    /** Returns when a scope has come or is leaving since the last `take`. */
    awaitChange: changed.await,
    /** From now on every handover ends at once. */
    close: () => {
      isClosed = true
      for (const place of places.values()) remove(place)
    }
  }
}

export type PlacedScopes = ReturnType<typeof make>
