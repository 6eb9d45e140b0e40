/**
 * The shards whose streams this process owns. Background work belongs to the shard of its integration, and stops when the shard is
 * released.
 *
 * Gotchas
 * - For an integration of another process, `ownerOf` returns an owner that is always fenced. So a transaction that starts too late fails
 *   like a transaction during which the shard was taken over.
 */
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { captureScopeOf } from "../../domain/Shard.ts"
import type { Owner } from "../../store/Ownership.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import type { Ownership } from "../Stream.ts"

interface OwnedShard {
  readonly owner: Owner
  readonly scope: Scope.Closeable
}

export interface OwnedShards extends Ownership {
  /** Whether this is still the owner in this process. Even then, another process may have taken over in the meantime. */
  readonly isOwner: (owner: Owner) => boolean
  /** Takes over these shards, and fences the processes that owned them   (I10, X9). */
  readonly take: (scopes: Arr.NonEmptyReadonlyArray<string>) => Effect.Effect<void, StoreError>
  /** Stops the background work of these shards. */
  readonly release: (scopes: ReadonlyArray<string>) => Effect.Effect<void>
  /** Runs the effect in the background until it ends or the shard of the integration is released. */
  readonly runFor: (integration: string, effect: Effect.Effect<void>) => Effect.Effect<void>
}

/** The first epoch is 1. */
const fencedOwner = (scope: string): Owner => ({ scope, epoch: 0 })

export const make: Effect.Effect<OwnedShards, never, Store | Scope.Scope> = Effect.gen(function*() {
  const store = yield* Store
  const parent = yield* Effect.scope
  const shards = new Map<string, OwnedShard>()

  const release = Effect.fnUntraced(function*(scopes: ReadonlyArray<string>) {
    for (const scope of scopes) {
      const shard = shards.get(scope)
      shards.delete(scope)
      if (shard !== undefined) yield* Scope.close(shard.scope, Exit.void)
    }
  }, Effect.uninterruptible)

  return {
    ownerOf: (integration) => {
      const scope = captureScopeOf(integration)
      return shards.get(scope)?.owner ?? fencedOwner(scope)
    },
    owns: (integration) => shards.has(captureScopeOf(integration)),
    isOwner: ({ epoch, scope }) => shards.get(scope)?.owner.epoch === epoch,
    take: Effect.fnUntraced(function*(scopes) {
      yield* release(scopes)
      const owners = yield* store.takeOwnerships(scopes)
      for (const [scope, owner] of owners) shards.set(scope, { owner, scope: yield* Scope.fork(parent) })
    }, Effect.uninterruptible),
    release,
    runFor: (integration, effect) =>
      Effect.suspend(() => {
        const shard = shards.get(captureScopeOf(integration))
        return shard === undefined ? Effect.void : Effect.asVoid(Effect.forkIn(effect, shard.scope))
      })
  }
})
