/**
 * Decides whether many similar changes look like a configuration change in the other system rather than like ordinary work.
 *
 * Invariants
 * 1. If a wave of some size is held, every larger wave is held too
 * 2. Changes that a person approved do not count toward later waves
 *
 * Gotchas
 * - Deletes are compared with the number of live records before them, restores with the number after them.
 * - The window is counted in buckets of one hour. A bucket counts until its newest change is older than the window, so the
 *   window may be up to an hour too long, but never too short (D7).
 */
import * as Duration from "effect/Duration"
import type { ScopeChange } from "./ScopeChange.ts"

/** Limits up to which changes are published without a decision. A share is a fraction of the stream's live records. */
export interface Thresholds {
  /** Deletes within this window are counted together; restores likewise. */
  readonly window: Duration.Duration
  /** Either of two rules holds a wave. Rule 1: it has more than `count` changes, and more than `share` of the records. */
  readonly count: number
  readonly share: number
  /**
   * Rule 2: it has at least `smallCount` changes, and at least `smallShare` of the records. In addition, a wave of all records of a
   * stream is held if there are at least two.
   */
  readonly smallCount: number
  readonly smallShare: number
  /**
   * Changes are held if a property becomes null, or stops being null, in at least `scopeCount` records and in more than `scopeShare` of
   * all live records: the account's permission to read this property has probably changed. For lists that get their first members,
   * the share is at least `filledShare`.
   */
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

/** Why a wave of `count` changes in a stream of `records` is held, as text; null = it may be published. */
export const holdReason = (limits: Thresholds, wave: Wave, count: number, records: number): string | null => {
  const limit = Math.max(limits.count, Math.floor(limits.share * records))
  const verb = wave === "deletes" ? "deleted" : "restored"
  if (count >= 2 && count === records) return `all ${count} records ${verb}`
  if (count >= 2 && count > records) {
    return `${count} ${wave} within ${Duration.format(limits.window)}, but there are only ${records} records`
  }
  if (count > limits.count && count > limits.share * records) {
    return `${count} of ${records} records ${verb} within ${Duration.format(limits.window)}; the limit is ${limit}`
  }
  if (count >= limits.smallCount && count >= limits.smallShare * records) {
    return `${count} of ${records} records ${verb} within ${Duration.format(limits.window)}; ${
      limits.smallShare * 100
    } % or more is held`
  }
  return null
}

/** Higher than `scopeShare`, because first interviews on half of the records are ordinary work. */
const filledShare = 0.9

/**
 * A path became or stopped being empty in `count` of `records`. True if this is probably a change of permissions or settings, and not
 * the edits of single records (C3).
 */
export const isScopeChange = (limits: Thresholds, to: ScopeChange["to"], count: number, records: number): boolean =>
  count >= limits.scopeCount && (to === "members"
    ? count >= Math.max(limits.scopeShare, filledShare) * records
    : count > limits.scopeShare * records)

// ---- the sliding window -------------------------------------------------------------------------------------------

/** Deletes and restores published in one hour. */
export interface HourlyCounts extends Waves {
  /** Time of the newest of them; our clock, ms. */
  readonly at: number
}

const hour = 3_600_000
const isRecent = (limits: Thresholds, now: number) => ({ at }: HourlyCounts) =>
  now - at < Duration.toMillis(limits.window)

/** Deletes and restores published within the window. */
export const countRecent = (limits: Thresholds, history: ReadonlyArray<HourlyCounts>, now: number): Waves =>
  history.filter(isRecent(limits, now)).reduce<Waves>(
    (sum, { deletes, restores }) => ({ deletes: sum.deletes + deletes, restores: sum.restores + restores }),
    { deletes: 0, restores: 0 }
  )

/** Adds the changes that are published now to the history, and removes hours that have left the window. */
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

/** The history after a person decided about a wave: its counts are reset. */
export const forgetWave = (history: ReadonlyArray<HourlyCounts>, wave: Wave): ReadonlyArray<HourlyCounts> =>
  history.map((entry) => ({ ...entry, [wave]: 0 }))
