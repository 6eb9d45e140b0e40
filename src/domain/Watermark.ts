/**
 * Until when a reading makes a stream complete, told from the server's clock and never from record timestamps.
 *
 * Invariants
 * 1. The result never lies after the server's clock at the first request, as far as two clocks and a history can tell (I6)
 *
 * Gotchas
 * - Too early costs a few records read again, too late loses changes: where the server's `Date` and our own clock disagree
 *   about what was agreed before, the earlier one counts (W4, W5, W10).
 */

/** Of the first answer of a reading. All milliseconds. */
export interface ClockSample {
  /** The `Date` header, null if missing or unreadable. */
  readonly serverTime: number | null
  /** Our clock. */
  readonly requestedAt: number
  readonly duration: number
}

export interface WatermarkEstimate {
  /** The new watermark. */
  readonly watermark: number
  /** The history with this sample, newest last. */
  readonly clockOffsets: ReadonlyArray<number>
  /** The `Date` departed from the known offset, or our own clock jumped. */
  readonly isSkewed: boolean
}

/** `Date` has whole seconds. */
const resolution = 1_000
const maxSkew = 30_000
const maxSamples = 9

/** Samples among which two wrong ones are outvoted; with fewer the earlier clock counts. */
const minTrustedSamples = 5

/** Server clock − our clock, as far as the history tells; null before the first sample. */
export const knownOffset = (offsets: ReadonlyArray<number>): number | null => {
  if (offsets.length === 0) return null
  const sorted = [...offsets].sort((a, b) => a - b)
  const middle = sorted[Math.floor((sorted.length - 1) / 2)]!
  return sorted.length < minTrustedSamples && middle > maxSkew ? 0 : middle
}

/** `offsets`: recent samples of server clock − our clock. */
export const estimateWatermark = (clockOffsets: ReadonlyArray<number>, sample: ClockSample): WatermarkEstimate => {
  const known = knownOffset(clockOffsets)
  const duration = Math.ceil(sample.duration)
  const byOurs = sample.requestedAt + (known ?? 0) - resolution - duration
  if (sample.serverTime === null) return { watermark: byOurs, clockOffsets, isSkewed: false }
  const byTheirs = sample.serverTime - resolution - duration
  const offset = Math.round(sample.serverTime - sample.requestedAt - sample.duration / 2)
  const next = [...clockOffsets, offset].slice(-maxSamples)
  if (known === null) {
    return { watermark: Math.min(byTheirs, byOurs), clockOffsets: next, isSkewed: Math.abs(offset) > maxSkew }
  }
  const isSkewed = Math.abs(offset - known) > maxSkew
  return { watermark: isSkewed ? Math.min(byTheirs, byOurs) : byTheirs, clockOffsets: next, isSkewed }
}

/**
 * Until when every change of a stream is published or pending: server ms; null while its backfill is not complete. Never earlier
 * than what was reported before: a rewind and a wider margin only read again what was complete.
 */
export const completeTo = (stream: {
  readonly phase: "starting" | "backfilling" | "live"
  readonly backfilledAt: number | null
  readonly previousWatermark: number | null
  readonly overlap: number
  readonly reportedTo?: number
}): number | null =>
  stream.phase !== "live" || stream.backfilledAt === null || stream.previousWatermark === null
    ? null
    : Math.max(stream.previousWatermark - stream.overlap, stream.reportedTo ?? -Infinity)

/** The stream remembers what can be reported of it now. */
export const updateReportedTo = <S extends Parameters<typeof completeTo>[0]>(stream: S): S => {
  const reportedTo = completeTo(stream)
  return reportedTo === null || reportedTo === stream.reportedTo ? stream : { ...stream, reportedTo }
}

/** With its zone, UTC where it names none; an offset of hours alone is none that an engine reads. */
const zoned = (text: string): string => {
  if (text.length <= 10 || /[zZ]$|[+-]\d{2}:?\d{2}$/.test(text)) return text
  return /[+-]\d{2}$/.test(text) ? `${text}:00` : `${text}Z`
}

/** Timestamps of records, in any ISO form; null where there is none or it cannot be read (W7, W9). */
export const parseTime = (value: unknown): number | null => {
  const time = typeof value === "string" ? Date.parse(zoned(value)) : Number.NaN
  return Number.isNaN(time) ? null : time
}
