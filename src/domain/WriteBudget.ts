/**
 * The hourly budget of a plugin's writes in one integration.
 *
 * Gotchas
 * - A clock may be behind, because it was set back or belongs to another process. Its writes count in the later hour, which has already
 *   begun: otherwise each change between the two hours would start the budget again   (W4).
 */

const hourMillis = 3_600_000

/** The writes that were counted, and the hour in which they were (in hours since 1970). */
export interface CountedWrites {
  readonly hour: number
  readonly writes: number
}

/** `counted` and one more write at the time `now` (ms); null if the budget of that hour, `perHour` writes, is used up. */
export const countWrite = (counted: CountedWrites | null, perHour: number, now: number): CountedWrites | null => {
  const hour = Math.floor(now / hourMillis)
  const current = counted !== null && (counted.hour === hour || counted.hour === hour + 1)
    ? counted
    : { hour, writes: 0 }
  return current.writes < perHour ? { hour: current.hour, writes: current.writes + 1 } : null
}

/** `counted` without a write that was counted at the time `begunAt` (ms) and had no effect. */
export const uncountWrite = (counted: CountedWrites, begunAt: number): CountedWrites => {
  const hour = Math.floor(begunAt / hourMillis)
  const isOfHour = counted.hour === hour || counted.hour === hour + 1
  return isOfHour ? { hour: counted.hour, writes: Math.max(0, counted.writes - 1) } : counted
}

/** When the hour of `now` ends, in ms: a write for which the budget was used up waits until then. */
export const hourEnd = (now: number): number => (Math.floor(now / hourMillis) + 1) * hourMillis
