/**
 * How late the API shows changes, and how far polls read back because of it (W3). A change is late if the last complete poll should have
 * returned it and did not.
 *
 * Invariants
 * 1. The overlap of a stream never decreases, and is never extended beyond `maxOverlap`
 *
 * Gotchas
 * - The overlap in the stream's state starts as the configured one, and grows with the lateness that is observed. `complete_to` is the watermark minus this overlap. A poll
 *   reads back by this overlap or by the configured minimum, whichever is longer (`pollOverlap`).
 */
import * as Duration from "effect/Duration"

const maxOverlap = Duration.toMillis(Duration.hours(6))

/** The properties of a stream's state that decide what is late. Times by the server's clock, in ms. */
export interface PolledStream {
  readonly watermark: number | null
  readonly lastPoll: { readonly watermark: number | null; readonly mustRepeat?: boolean } | null
  readonly backfillStartedAt: number | null
  readonly backfilledAt: number | null
}

/** Server time up to which polls should have returned all changes, in ms: the start of the last complete poll. */
export const polledTo = ({ lastPoll, watermark }: PolledStream): number =>
  (lastPoll?.mustRepeat === true ? watermark : lastPoll?.watermark) ?? -Infinity

/** A record as the store had it when a run read it: its published head, and the `changed_at` of its pending row. */
export interface KnownRecord {
  readonly head: { readonly live: boolean; readonly changedAt: number | null } | undefined
  readonly pendingChangedAt: number | null
}

/**
 * How late a change became visible, in ms: from its `changed_at` to the start of the last complete poll. Null in these cases: the change is
 * not late; nested content changed, which does not move `changed_at` (W13); the change is from before the backfill, or the backfill is not
 * complete; a pending change was observed before; the record was deleted, and may have changed while it was in no list.
 */
export const lagOf = (
  changedAt: number | null,
  { head, pendingChangedAt }: KnownRecord,
  stream: PolledStream
): number | null => {
  if (stream.backfilledAt === null || changedAt === null || head?.live === false) return null
  if (changedAt <= (head === undefined ? stream.backfillStartedAt ?? Infinity : head.changedAt ?? Infinity)) return null
  if (pendingChangedAt !== null && changedAt <= pendingChangedAt) return null
  const lag = polledTo(stream) - changedAt
  return lag > 0 ? lag : null
}

/** How far a poll reads back behind the previous watermark, in ms. */
export const pollOverlap = (overlap: number, minOverlap: Duration.Duration): number =>
  Math.max(overlap, Duration.toMillis(minOverlap))

/**
 * The new overlap of a stream: twice the largest lag, at most `maxOverlap`, and never less than before. A lag counts at most as the current
 * overlap plus three intervals. A larger lag does not show how late the API is: a sweep found the change, or shifting pages hid the record
 * after an outage.
 */
export const widenOverlap = (
  overlap: number,
  lag: number,
  { interval, minOverlap }: { readonly interval: Duration.Duration; readonly minOverlap: Duration.Duration }
): number => {
  const regular = pollOverlap(overlap, minOverlap) + 3 * Duration.toMillis(interval)
  return Math.max(overlap, Math.min(2 * Math.min(lag, regular), maxOverlap))
}
