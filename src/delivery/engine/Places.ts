/**
 * The ownership scopes of deliveries that the placement has put into this process. The engine takes new ones together, in one transaction.
 *
 * Gotchas
 * - A scope that was lost to another process is not taken again before the placement has moved it away and back: two processes that
 *   both believe that they have it would take it from each other forever.
 */
import * as Arr from "effect/Array"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { Placement } from "../../fleet/Placement.ts"
import type { Owner, Store, StoreError } from "../../store/Store.ts"

/** How long running attempts may continue when their shard moves. Then they are interrupted, and may take as long as `evictionTime`. */
const leaveTime = "1500 millis"
const evictionTime = "400 millis"

/** One stay of a scope in this process. */
export interface Place {
  readonly scope: string
  /** null: not taken yet. */
  owner: Owner | null
  state: "here" | "leaving" | "lost"
  readonly gone: Deferred.Deferred<void>
  /** Set while a transaction takes the scope. */
  taking: Deferred.Deferred<void> | null
}

/** The engine's part when a scope moves away. It then calls `leave`, or the move continues without it after a time limit. */
export interface Mover {
  /** Starts nothing more for the scope. */
  readonly begin: (scope: string) => void
  readonly interrupt: (scope: string) => void
  /** The next owner may act from now on. */
  readonly drop: (scope: string) => void
}

export const make = (mover: Mover) => {
  const places = new Map<string, Place>()
  const changed = Latch.makeUnsafe(false)
  let isClosed = false

  const leave = (place: Place) => {
    if (places.get(place.scope) === place) places.delete(place.scope)
    Deferred.doneUnsafe(place.gone, Exit.void)
  }

  /** Runs when the scope moves: returns once its attempts have ended, at the latest when their time is up. */
  const moveAway = Effect.fnUntraced(function*(place: Place) {
    // a transaction that took the scope later would take it from the next owner
    if (place.taking !== null) yield* Deferred.await(place.taking)
    if (isClosed || place.state === "lost" || place.owner === null) return leave(place)
    place.state = "leaving"
    mover.begin(place.scope)
    changed.openUnsafe()
    const gone = Deferred.await(place.gone)
    yield* Effect.timeoutOption(gone, leaveTime)
    mover.interrupt(place.scope)
    changed.openUnsafe()
    yield* Effect.timeoutOption(gone, evictionTime)
    mover.drop(place.scope)
    leave(place)
  })

  const stay = (scope: string): Effect.Effect<never> =>
    Effect.suspend(() => {
      const place: Place = { scope, owner: null, state: "here", gone: Deferred.makeUnsafe(), taking: null }
      places.set(scope, place)
      changed.openUnsafe()
      // in a fiber of its own, because a finalizer cannot be interrupted, and so has no time limits
      return Effect.ensuring(Effect.never, Effect.flatMap(Effect.forkDetach(moveAway(place)), Fiber.await))
    })

  return {
    register: (scopes: ReadonlyArray<string>): Effect.Effect<void, never, Placement | Scope.Scope> =>
      Effect.flatMap(
        Placement,
        (placement) => Effect.forEach(scopes, (scope) => placement.singleton(scope, stay(scope)), { discard: true })
      ),
    all: (): ReadonlyArray<Place> => [...places.values()],
    /** Takes the scopes that have come since the last call. */
    take: (takeOwnerships: Store["Service"]["takeOwnerships"]): Effect.Effect<void, StoreError> =>
      Effect.suspend(() => {
        changed.closeUnsafe()
        const taking = Deferred.makeUnsafe<void>()
        const placed = [...places.values()].filter(({ owner, state }) => owner === null && state === "here")
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
    /** The owner of a scope that is here and taken. */
    ownerOf: (scope: string): Owner | null => {
      const place = places.get(scope)
      return place?.state === "here" ? place.owner : null
    },
    /** Notes that another process has taken the scope over. */
    lose: (scope: string) => {
      const place = places.get(scope)
      if (place?.state === "here") place.state = "lost"
      else if (place !== undefined) leave(place)
    },
    leave,
    /** Returns when a scope has come or is leaving since the last `take`. */
    awaitChange: changed.await,
    /** From now on every scope moves away at once. */
    close: () => {
      isClosed = true
      for (const place of places.values()) leave(place)
    }
  }
}

export type Places = ReturnType<typeof make>
