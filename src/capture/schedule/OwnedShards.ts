/**
 * The shards whose streams this process owns. Background work belongs to the shard of its integration, and stops when the shard is
 * handed over. A shard that another process took, and that is not handed over here, is lost (`fleet/Placement.ts` explains the verbs).
 *
 * Gotchas
 * - For an integration of another process, `ownerOf` returns an owner that is always fenced. So a transaction that starts too late fails
 *   like a transaction during which the shard was taken over.
 */
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import { captureScopeOf } from "../../domain/Shard.ts"
import type { Owner } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"

interface OwnedShard {
  readonly owner: Owner
  readonly scope: Scope.Closeable
}

/**
 * A process that was frozen while its shards moved is fenced first, and hands them over soon afterwards. A shard that it does not hand over
 * within this time has not moved. Then the other process took it by mistake: that process had just been frozen itself, or it is not part of
 * the fleet.
 */
const handoverPatience = "10 seconds"

/** The first epoch is 1. */
const fencedOwner = (scope: string): Owner => ({ scope, epoch: 0 })

export const make = Effect.fnUntraced(function*({ takesAll }: { readonly takesAll: boolean }) {
  const store = yield* Store
  const parent = yield* Effect.scope
  const shards = new Map<string, OwnedShard>()
  const lost = yield* Queue.unbounded<string>()
  /** Whether this is still the owner in this process. */
  const isOwner = ({ epoch, scope }: Owner) => shards.get(scope)?.owner.epoch === epoch

  /** Stops the background work of these shards. */
  const handOver = Effect.fnUntraced(function*(scopes: ReadonlyArray<string>) {
    for (const scope of scopes) {
      const shard = shards.get(scope)
      shards.delete(scope)
      if (shard !== undefined) yield* Scope.close(shard.scope, Exit.void)
    }
  }, Effect.uninterruptible)

  return {
    ownerOf: (integration: string): Owner => {
      const scope = captureScopeOf(integration)
      return shards.get(scope)?.owner ?? fencedOwner(scope)
    },
    owns: (integration: string): boolean => shards.has(captureScopeOf(integration)),
    /** Takes over these shards, and fences the processes that owned them   (I10, X9). */
    take: Effect.fnUntraced(function*(scopes: Arr.NonEmptyReadonlyArray<string>) {
      yield* handOver(scopes)
      const owners = yield* store.takeOwnerships(scopes)
      for (const [scope, owner] of owners) shards.set(scope, { owner, scope: yield* Scope.fork(parent) })
    }, Effect.uninterruptible),
    handOver,
    /** Runs the effect in the background until it ends or the shard of the integration is handed over. */
    runFor: (integration: string, effect: Effect.Effect<void>): Effect.Effect<void> =>
      Effect.suspend(() => {
        const shard = shards.get(captureScopeOf(integration))
        return shard === undefined ? Effect.void : Effect.asVoid(Effect.forkIn(effect, shard.scope))
      }),
    /**
     * If the error shows that another process has taken over, waits until the shard is handed over here. If it is not handed over in time, the
     * shard is treated as lost. Fails with any other error, and always if the process takes all shards.
     */
    untilHandedOver: (error: StoreError): Effect.Effect<void, StoreError> => {
      const { reason } = error
      if (reason._tag !== "Fenced" || takesAll) return Effect.fail(error)
      return Effect.andThen(
        Effect.sleep(handoverPatience),
        Effect.suspend(() => isOwner(reason) ? Effect.asVoid(Queue.offer(lost, reason.scope)) : Effect.void)
      )
    },
    /** Returns a lost shard: one that another process has taken over, and that this process did not hand over within `handoverPatience`. */
    awaitLost: Queue.take(lost)
  }
})
