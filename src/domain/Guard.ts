/**
 * Decides whether many similar changes (a wave) look like a configuration change in the third-party system rather than like ordinary work.
 *
 * Invariants
 * 1. If a wave is held, every larger wave of the same stream is held too
 * 2. Changes that an operator approved are not added to later waves
 *
 * Gotchas
 * - The share of deletes is a share of the records that were live before the wave. The share of restores is a share of the records that are
 *   live after the wave.
 * - The window consists of buckets of one hour. A bucket is dropped when its newest change is older than the window, so the window may be
 *   up to an hour too long, but never too short (D7).
 */
import * as Duration from "effect/Duration"
import { inWords } from "./DurationText.ts"
import type { ScopeChange } from "./ScopeChange.ts"

/**
 * Limits above which a wave is held for an operator. Whatever the limits are, a wave of all records of a stream is held if there are at
 * least two. A share is a fraction of the stream's live records.
 */
export interface Thresholds {
  /** Deletes within this window are one wave; restores within it are another. */
  readonly window: Duration.Duration
  /** Rule 1 holds a wave that has more than `count` changes and affects more than `share` of the live records. */
  readonly count: number
  readonly share: number
  /**
   * Rule 2, for smaller waves, holds a wave that has at least `smallCount` changes and affects at least `smallShare` of the live records.
   */
  readonly smallCount: number
  readonly smallShare: number
  /**
   * A property that becomes null, or stops being null, in at least `scopeCount` records and in more than `scopeShare` of the live records
   * is a scope change, and is held: the account's permission to read this property has probably changed. For empty lists that get their
   * first members, the share must be at least `filledShare` as well.
   */
  readonly scopeCount: number
  readonly scopeShare: number
}

export const defaultThresholds: Thresholds = {
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

/**
 * Why a wave of `count` changes in a stream of `records` is held, as text; null if it may be published. `published`: how many of the changes
 * were published within the window.
 */
export const holdReason = (
  limits: Thresholds,
  wave: Wave,
  count: number,
  records: number,
  published = 0
): string | null => {
  const limit = Math.max(limits.count, Math.floor(limits.share * records))
  const verb = wave === "deletes" ? "deleted" : "restored"
  const window = `within ${inWords(limits.window)}`
  const before = published === 0 ? "" : ` (${published} of them ${published === 1 ? "is" : "are"} published)`
  if (count >= 2 && count === records) return `all ${count} records ${verb}${before}`
  if (count >= 2 && count > records) {
    return `${count} ${wave} ${window}${before}, but there are only ${records} records`
  }
  if (count > limits.count && count > limits.share * records) {
    return `${count} of ${records} records ${verb} ${window}${before}; the limit is ${limit}`
  }
  if (count >= limits.smallCount && count >= limits.smallShare * records) {
    const percent = Math.round(limits.smallShare * 10_000) / 100
    return `${count} of ${records} records ${verb} ${window}${before}; ` +
      `waves of at least ${limits.smallCount} records and ${percent} % of all records are held`
  }
  return null
}

/** At the end of the reason of an open hold that the next complete sweep ends. */
const belowLimits = ", fewer than the limits now"
export const markBelowLimits = (reason: string, isBelow: boolean): string =>
  `${isBelowLimits(reason) ? reason.slice(0, -belowLimits.length) : reason}${isBelow ? belowLimits : ""}`
export const isBelowLimits = (reason: string): boolean => reason.endsWith(belowLimits)

/** Higher than `scopeShare`, because first interviews on half of the records are ordinary work. */
const filledShare = 0.9

/**
 * Whether a path that became empty, or stopped being empty, in `count` of `records` indicates changed permissions or settings rather than
 * edits of single records (C3).
 */
export const isScopeChange = (limits: Thresholds, to: ScopeChange["to"], count: number, records: number): boolean =>
  count >= limits.scopeCount && (to === "members"
    ? count >= Math.max(limits.scopeShare, filledShare) * records
    : count > limits.scopeShare * records)

// ---- the sliding window -------------------------------------------------------------------------------------------

/** Deletes and restores published in one hour. */
export interface HourlyCounts extends Waves {
  /** Time of the newest of these changes; our clock, in ms. */
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

/** Adds the changes that are being published to the history, and removes the hours that are older than the window. */
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

/**
 * The history after an operator approved the held changes of one kind: the counts of that kind are zero, so the approved changes do not
 * hold the next wave.
 */
export const resetWave = (history: ReadonlyArray<HourlyCounts>, wave: Wave): ReadonlyArray<HourlyCounts> =>
  history.map((entry) => ({ ...entry, [wave]: 0 }))
