/**
 * The deliveries whose attempts blocked this process: while they computed without yielding, it could not renew the locks of its shards.
 * If the process loses such a shard and takes it again, with no other owner in between, these deliveries count a crash. Without that, they
 * would be repeated without an end.
 */
import type { Owner } from "../../store/State.ts"
import type { OwnedShard } from "./DeliveryShards.ts"

/** Whether `after` follows directly on `before`: no process owned the scope in between. */
const continues = (after: Owner, before: Owner): boolean =>
  after.scope === before.scope && after.epoch === before.epoch + 1

export const make = () => {
  /** By id, with the shard as it was owned when the attempt ran. */
  const blocking = new Map<number, OwnedShard>()

  return {
    add: (ids: ReadonlyArray<number>, owned: OwnedShard) => {
      for (const id of ids) blocking.set(id, owned)
    },
    /** An attempt has ended although it blocked the process. If it was interrupted with its shard, it stays noted. */
    ended: (ids: ReadonlyArray<number>, owned: OwnedShard) => {
      if (owned.interrupted.isOpen()) return
      for (const id of ids) if (blocking.get(id) === owned) blocking.delete(id)
    },
    /** Those that ran in the term on which the term of one of `owners` follows directly. */
    before: (owners: ReadonlyArray<Owner>): ReadonlyArray<number> =>
      [...blocking].flatMap(([id, { owner }]) => owners.some((after) => continues(after, owner)) ? [id] : []),
    /** Call when the shard has been taken. */
    taken: ({ scope }: Owner) => {
      for (const [id, { owner }] of blocking) if (owner.scope === scope) blocking.delete(id)
    }
  }
}
