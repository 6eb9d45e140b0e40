/** The shards of deliveries that this process owns. */
import * as Deferred from "effect/Deferred"
import * as Exit from "effect/Exit"
import { shardOf, shardOfScope } from "../../domain/Shard.ts"
import type { Owner } from "../../store/Store.ts"

/** One term of ownership of a shard. */
export interface ShardHold {
  readonly owner: Owner
  /** `leaving`: nothing more is started, because the shard moves. `dropped`: another process owns it, or soon will; nothing is settled. */
  state: "held" | "leaving" | "dropped"
  /** Jobs that have no outcome yet, queued or running. */
  jobs: number
  /** Interrupts the running attempts. */
  readonly evicted: Deferred.Deferred<void>
  isEvicted: boolean
}

const evict = (hold: ShardHold) => {
  hold.isEvicted = true
  Deferred.doneUnsafe(hold.evicted, Exit.void)
}

export const make = () => {
  const holds = new Map<number, ShardHold>()

  return {
    add: (owner: Owner) => {
      holds.set(shardOfScope(owner.scope), {
        owner,
        state: "held",
        jobs: 0,
        evicted: Deferred.makeUnsafe(),
        isEvicted: false
      })
    },
    get: (shard: number): ShardHold | undefined => holds.get(shard),
    /** The hold of the integration's shard. */
    of: (integration: string): ShardHold | undefined => holds.get(shardOf(integration)),
    all: (state: ShardHold["state"]): ReadonlyArray<ShardHold> =>
      [...holds.values()].filter((hold) => hold.state === state),
    leave: (shard: number): ShardHold | undefined => {
      const hold = holds.get(shard)
      if (hold !== undefined) hold.state = "leaving"
      return hold
    },
    evict: (shard: number) => {
      const hold = holds.get(shard)
      if (hold !== undefined) evict(hold)
    },
    drop: (shard: number): ShardHold | undefined => {
      const hold = holds.get(shard)
      if (hold === undefined) return undefined
      holds.delete(shard)
      hold.state = "dropped"
      evict(hold)
      return hold
    }
  }
}
