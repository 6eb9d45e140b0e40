/**
 * Divides the request slots of an account between the processes of a fleet. The processes decide one at a time: each computes its share
 * from the leases of all processes.
 *
 * Invariants
 * 1. A process takes only slots that are in no other lease, so all leases together do not exceed the smallest concurrency of their
 *    processes. They exceed it only after a process with a smaller concurrency has joined; then no lease grows until enough slots were
 *    returned
 * 2. A process with demand gets at least one slot if there are enough; otherwise the slots rotate
 * 3. The last free slot is reserved for a process without slots. So a process that starts, or takes over from a killed process, can send
 *    requests before the lease of the killed process expires
 *
 * Gotchas
 * - A lease that was not renewed for `silentAfter` may belong to a dead process. Its slots stay taken until it expires, but the process
 *   gets no share of the other slots.
 * - A share is only a goal. Two processes that see different leases may expect the same free slot, but only the first gets it.
 */

/** The concurrency of an account for which none is configured. */
export const defaultConcurrency = 8

export interface Lease {
  readonly process: string
  /** The concurrency that the process is configured with. */
  readonly concurrency: number
  /** How many requests the process may have in flight. */
  readonly slots: number
  /** How many slots the process could use. */
  readonly wanted: number
  /** How long the process has had slots without a break or, if it has none, has waited for one, in ms. */
  readonly turn: number
  /** Time since the lease was renewed, in ms. */
  readonly age: number
}

export interface Share {
  /** How many requests the process may have in flight. */
  readonly slots: number
  /** How many slots the process should have. It returns the others when their requests have ended. */
  readonly goal: number
  /** True if another process has demand too, and all processes together could use more slots than there are. */
  readonly isContended: boolean
}

/** Longer than a process with demand takes to renew its lease, in ms. */
export const silentAfter = 5_000
/** How long a process keeps its only slot while others wait for one, in ms. */
const turnLength = 2_000

const isWaiting = ({ slots }: Lease): boolean => slots === 0

/**
 * The order in which processes are offered slots: first those whose turn is not over, then those that wait for a slot, and last those
 * whose turn is over.
 */
const rank = (lease: Lease): number => isWaiting(lease) ? 1 : lease.turn < turnLength ? 0 : 2
const byTurn = (one: Lease, other: Lease): number =>
  rank(one) - rank(other) ||
  (isWaiting(one) ? other.turn - one.turn : one.turn - other.turn) ||
  (one.process < other.process ? -1 : 1)

/** Gives slots one at a time, in turn, to the processes that want more. A second or further slot is given only if one slot then stays free. */
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

/**
 * `own`: the lease of the deciding process, with the slots that it keeps. `others`: the leases of other processes that have not expired.
 */
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
  // A process without slots gets one after the processes that have waited longer. A process with slots gets more after all waiting
  // processes, and never the last free slot.
  const growth = own.slots === 0
    ? free > waiting.filter((lease) => byTurn(lease, own) < 0).length ? 1 : 0
    : Math.max(0, free - waiting.length - 1)
  // At most twice as many as before, so that a process that is killed soon after its start does not leave all slots leased.
  const next = Math.min(goal, Math.max(1, 2 * own.slots), own.slots + growth)
  return {
    slots: Math.max(own.slots, next),
    goal,
    isContended: inOrder.some((lease) => lease !== own) &&
      inOrder.reduce((sum, { wanted }) => sum + wanted, 0) > Math.max(1, available - 1)
  }
}
