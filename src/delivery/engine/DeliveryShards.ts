/** The shards of deliveries that this process owns. */
import * as Deferred from "effect/Deferred"
import * as Exit from "effect/Exit"
import { shardOf, shardOfScope } from "../../domain/Shard.ts"
import type { Owner } from "../../store/State.ts"

/** A shard that this process owns. If it is taken again after a loss, it is another `OwnedShard`. */
export interface OwnedShard {
  readonly owner: Owner
  /** `leaving`: nothing more is started, because the shard moves. `dropped`: another process owns it, or soon will; nothing is settled. */
  state: "owned" | "leaving" | "dropped"
  /** Jobs that have no outcome yet, queued or running. */
  jobs: number
  /** Interrupts the running attempts. */
  readonly evicted: Deferred.Deferred<void>
  isEvicted: boolean
}

const evict = (owned: OwnedShard) => {
  owned.isEvicted = true
  Deferred.doneUnsafe(owned.evicted, Exit.void)
}

export const make = () => {
  const shards = new Map<number, OwnedShard>()

  return {
    add: (owner: Owner) => {
      shards.set(shardOfScope(owner.scope), {
        owner,
        state: "owned",
        jobs: 0,
        evicted: Deferred.makeUnsafe(),
        isEvicted: false
      })
    },
    get: (shard: number): OwnedShard | undefined => shards.get(shard),
    /** The integration's shard, if this process owns it. */
    of: (integration: string): OwnedShard | undefined => shards.get(shardOf(integration)),
    all: (state: OwnedShard["state"]): ReadonlyArray<OwnedShard> =>
      [...shards.values()].filter((owned) => owned.state === state),
    leave: (shard: number): OwnedShard | undefined => {
      const owned = shards.get(shard)
      if (owned !== undefined) owned.state = "leaving"
      return owned
    },
    evict: (shard: number) => {
      const owned = shards.get(shard)
      if (owned !== undefined) evict(owned)
    },
    drop: (shard: number): OwnedShard | undefined => {
      const owned = shards.get(shard)
      if (owned === undefined) return undefined
      shards.delete(shard)
      owned.state = "dropped"
      evict(owned)
      return owned
    }
  }
}
