/**
 * Ownership of scopes: which process may write for a shard, or for the relay.
 *
 * Invariants
 * 1. If the owner's epoch is no longer the newest, its transaction fails with `Fenced` and changes nothing   (I10)
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import type { Operation } from "./StoreError.ts"

export interface Owner {
  readonly scope: string
  readonly epoch: number
}

export interface Ownership {
  /** Takes over `scope`, and fences its previous owner (I10). */
  readonly takeOwnership: (scope: string) => Operation<Owner>
  /** Takes over several scopes in one transaction. Returns the owners by scope. */
  readonly takeOwnerships: (scopes: NonEmptyReadonlyArray<string>) => Operation<ReadonlyMap<string, Owner>>
}
