/**
 * Divides the request slots of an account between the processes of a fleet. Each process decides for itself, one at a time, from the
 * leases of all.
 *
 * Invariants
 * 1. A process takes only slots that no other lease has: all leases together never exceed the smallest concurrency of their processes.
 *    After a process with a smaller concurrency joined, no lease grows until the others have returned enough
 * 2. A process with demand gets at least one slot if there are enough; otherwise the slots rotate
 * 3. The last free slot is only for a process that has none. So a process that starts, or that takes over from one that was killed, can
 *    send requests before the lease of the dead one expires
 *
 * Gotchas
 * - A lease that was not renewed for `silentAfter` belongs to a process that is perhaps dead. Its slots are taken until it expires, but it
 *   gets no share of the others.
 * - Shares are only a goal. Two processes that see different leases may both count on the same free slot, but only the first gets it.
 */

export interface Lease {
  readonly process: string
  /** The concurrency that the process is configured with. */
  readonly concurrency: number
  /** How many requests the process may have in flight. */
  readonly slots: number
  /** How many it could use. */
  readonly wanted: number
  /** Time since it got its first slot, or since it has none, ms. */
  readonly turn: number
  /** Time since it was renewed, ms. */
  readonly age: number
}

export interface Share {
  /** How many requests the process may have in flight. */
  readonly slots: number
  /** How many it should have: it returns the others when their requests have ended. */
  readonly goal: number
  /** Whether another process has demand too, and all together could use more slots than there are. */
  readonly isContended: boolean
}

/** Longer than a process with demand takes to renew its lease, ms. */
export const silentAfter = 5_000
/** How long a process keeps its only slot while others wait for one, ms. */
const turnLength = 2_000

const isWaiting = ({ slots }: Lease): boolean => slots === 0

/** Who is offered a slot first: those whose turn has just begun, then those who wait, and last those who have had their turn. */
const rank = (lease: Lease): number => isWaiting(lease) ? 1 : lease.turn < turnLength ? 0 : 2
const byTurn = (one: Lease, other: Lease): number =>
  rank(one) - rank(other) ||
  (isWaiting(one) ? other.turn - one.turn : one.turn - other.turn) ||
  (one.process < other.process ? -1 : 1)

/** Gives one slot after another to the processes that want more. A second one is given only if a free one is left. */
const divide = (slots: number, inOrder: ReadonlyArray<Lease>): ReadonlyMap<string, number> => {
  const goals = new Map(inOrder.map(({ process }) => [process, 0]))
  let left = slots
  for (let level = 1; left > (level === 1 ? 0 : 1); level++) {
    const more = inOrder.filter(({ wanted }) => wanted >= level).slice(0, level === 1 ? left : left - 1)
    if (more.length === 0) break
    for (const { process } of more) goals.set(process, level)
    left -= more.length
  }
  return goals
}

/** `own`: the lease of the process that decides, with the slots that it keeps. `others`: those that have not expired. */
export const share = (own: Lease, others: ReadonlyArray<Lease>): Share => {
  const concurrency = Math.min(own.concurrency, ...others.map(({ concurrency }) => concurrency))
  const slotsOf = (leases: ReadonlyArray<Lease>) => leases.reduce((sum, { slots }) => sum + slots, 0)
  const isSilent = ({ age }: Lease) => age >= silentAfter
  const inOrder = [own, ...others.filter((lease) => !isSilent(lease))].filter(({ wanted }) => wanted > 0).sort(byTurn)
  const available = Math.max(0, concurrency - slotsOf(others.filter(isSilent)))
  const goals = divide(available, inOrder)
  const goal = goals.get(own.process) ?? 0
  const free = concurrency - slotsOf(others) - own.slots
  const waiting = inOrder.filter((lease) => lease !== own && isWaiting(lease))
  // the first slot after those who have waited longer, further ones after all who wait, and not the last one
  const growth = own.slots === 0
    ? free > waiting.filter((lease) => byTurn(lease, own) < 0).length ? 1 : 0
    : Math.max(0, free - waiting.length - 1)
  // at most twice as many as before, so that processes that are killed soon after their start do not leave all slots leased
  const next = Math.min(goal, Math.max(1, 2 * own.slots), own.slots + growth)
  return {
    slots: Math.max(own.slots, next),
    goal,
    isContended: inOrder.some((lease) => lease !== own) &&
      inOrder.reduce((sum, { wanted }) => sum + wanted, 0) > Math.max(1, available - 1)
  }
}
