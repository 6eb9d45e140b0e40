/** The shards of deliveries that this process owns. `fleet/Placement.ts` explains the verbs. */
import * as Latch from "effect/Latch"
import { shardOf, shardOfScope } from "../../domain/Shard.ts"
import type { Owner } from "../../store/State.ts"

/** A shard that this process owns. If it is taken again after a loss, it is another `OwnedShard`. */
export interface OwnedShard {
  readonly owner: Owner
  /** `leaving`: nothing more is started, because the shard is handed over. `lost`: nothing more is settled. See `fleet/Placement.ts`. */
  state: "owned" | "leaving" | "lost"
  /** Jobs that have no outcome yet, queued or running. */
  jobs: number
  /** Opens when the running attempts are interrupted. */
  readonly interrupted: Latch.Latch
}

export const make = () => {
  const shards = new Map<number, OwnedShard>()

  return {
    add: (owner: Owner) => {
      shards.set(shardOfScope(owner.scope), { owner, state: "owned", jobs: 0, interrupted: Latch.makeUnsafe() })
    },
    remove: (shard: number) => void shards.delete(shard),
    get: (shard: number): OwnedShard | undefined => shards.get(shard),
    /** The integration's shard, if this process owns it. */
    of: (integration: string): OwnedShard | undefined => shards.get(shardOf(integration)),
    numbers: (): ReadonlyArray<number> => [...shards.keys()],
    all: (state: OwnedShard["state"]): ReadonlyArray<OwnedShard> =>
      [...shards.values()].filter((owned) => owned.state === state)
  }
}
