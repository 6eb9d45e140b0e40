/**
 * Decides whether a wave of changes looks like something switched off at the other end rather than like people at work.
 *
 * Invariants
 * 1. More of the same never lets a wave pass that fewer held
 * 2. What a person approved is not counted against what comes after it
 *
 * Gotchas
 * - Deletes are measured against the records that lived before them, restores against those that live after them.
 * - The window is kept in hours, each counted until its newest change is a window old: it may reach an hour too far, never
 *   too short (D7).
 */
import * as Duration from "effect/Duration"
import type { ScopeChange } from "./ScopeChange.ts"

/** What is published unasked. A share is of the stream's live records. */
export interface Thresholds {
  /** Deletes, and restores, of this long are counted together. */
  readonly window: Duration.Duration
  /** Held beyond both … */
  readonly count: number
  readonly share: number
  /** … or from both of these on; and when it is all of at least two. */
  readonly smallCount: number
  readonly smallShare: number
  /** One path that goes to or from null: held from this count on and beyond this share. */
  readonly scopeCount: number
  readonly scopeShare: number
}

export const thresholds: Thresholds = {
  window: Duration.hours(24),
  count: 100,
  share: 0.2,
  smallCount: 5,
  smallShare: 0.5,
  scopeCount: 5,
  scopeShare: 0.3
}

/** Kinds of change that come in waves. */
export type Wave = "deletes" | "restores"
export type Waves = Readonly<Record<Wave, number>>

/** Why `amount` of `records` is held, in words; null = it may pass. */
export const holdReason = (limits: Thresholds, wave: Wave, amount: number, records: number): string | null => {
  const most = Math.max(limits.count, Math.floor(limits.share * records))
  const verb = wave === "deletes" ? "deleted" : "restored"
  if (amount >= 2 && amount === records) return `all ${amount} records ${verb}`
  if (amount >= 2 && amount > records) {
    return `records were ${verb} ${amount} times within ${Duration.format(limits.window)}, and there are ${records}`
  }
  if (amount > limits.count && amount > limits.share * records) {
    return `${amount} of ${records} records ${verb} within ${Duration.format(limits.window)}; up to ${most} may pass`
  }
  if (amount >= limits.smallCount && amount >= limits.smallShare * records) {
    return `${amount} of ${records} records ${verb} within ${Duration.format(limits.window)}; from ${
      limits.smallShare * 100
    } % on they are held`
  }
  return null
}

/** First interviews on half of the records are a busy day. */
const filledShare = 0.9

/** Whether a path that went to or from null, or from an empty array, on `amount` of `records` was switched, not edited (C3). */
export const isScopeChange = (limits: Thresholds, to: ScopeChange["to"], amount: number, records: number): boolean =>
  amount >= limits.scopeCount && (to === "members"
    ? amount >= Math.max(limits.scopeShare, filledShare) * records
    : amount > limits.scopeShare * records)

// ---- the sliding window -------------------------------------------------------------------------------------------

/** What was published in one hour. */
export interface HourlyCounts extends Waves {
  /** Our clock, ms: the newest of them. */
  readonly at: number
}

const hour = 3_600_000
const isRecent = (limits: Thresholds, now: number) => ({ at }: HourlyCounts) =>
  now - at < Duration.toMillis(limits.window)

/** Sum of what was published within the window. */
export const countRecent = (limits: Thresholds, history: ReadonlyArray<HourlyCounts>, now: number): Waves =>
  history.filter(isRecent(limits, now)).reduce<Waves>(
    (sum, { deletes, restores }) => ({ deletes: sum.deletes + deletes, restores: sum.restores + restores }),
    { deletes: 0, restores: 0 }
  )

/** The history with what is published now, without what has left the window. */
export const addToHistory = (
  limits: Thresholds,
  history: ReadonlyArray<HourlyCounts>,
  now: number,
  published: Waves
): ReadonlyArray<HourlyCounts> => {
  const recent = history.filter(isRecent(limits, now))
  if (published.deletes + published.restores === 0) return recent
  const last = recent.at(-1)
  const same = last !== undefined && Math.floor(last.at / hour) === Math.floor(now / hour)
  return [...(same ? recent.slice(0, -1) : recent), {
    at: now,
    deletes: published.deletes + (same ? last.deletes : 0),
    restores: published.restores + (same ? last.restores : 0)
  }]
}

/** The history after a person looked at a wave. */
export const forgetWave = (history: ReadonlyArray<HourlyCounts>, wave: Wave): ReadonlyArray<HourlyCounts> =>
  history.map((entry) => ({ ...entry, [wave]: 0 }))
