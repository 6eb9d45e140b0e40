/**
 * Estimates the watermark of a run: the server time up to which the stream is complete after the run. The estimate is based on the
 * server's clock, never on record timestamps.
 *
 * Invariants
 * 1. The estimate errs on the early side: it is the server's time minus the resolution of `Date` and the duration of the request. If the
 *    `Date` header contradicts our clock, the earlier of the two times is used. Without a `Date`, the known offset only makes the estimate
 *    earlier: our clock may have been set right since it was slow, or another process may have had the slow clock   (I6, W4, W5, W10)
 *
 * Gotchas
 * - If the watermark is too early, some records are read again; if it is too late, changes are lost.
 */

import { isDay } from "../api/Fields.ts"
import type { Model, StreamKey } from "./Model.ts"

/** Times of a run's first response, in ms. */
export interface ClockSample {
  /** The `Date` header, null if missing or unreadable. */
  readonly serverTime: number | null
  /** When the request was sent, by our clock. */
  readonly requestedAt: number
  readonly duration: number
}

export interface WatermarkEstimate {
  readonly watermark: number
  /** Earlier samples and this one, newest last. */
  readonly clockOffsets: ReadonlyArray<number>
  /** The `Date` header does not fit the known offset: the server's clock or our clock jumped. */
  readonly isSkewed: boolean
}

/** `Date` has whole seconds. */
const resolution = 1_000
const maxSkew = 30_000
const maxSamples = 9

/**
 * With this many samples, two wrong ones do not change the median. With fewer, a median that puts the server's clock more than `maxSkew`
 * ahead is replaced by 0.
 */
const minTrustedSamples = 5

const medianOf = (offsets: ReadonlyArray<number>): number | null =>
  [...offsets].sort((a, b) => a - b)[Math.floor((offsets.length - 1) / 2)] ?? null

/** Median of the samples of server clock − our clock, in ms; null before the first sample. Errs on the early side. */
export const knownOffset = (offsets: ReadonlyArray<number>): number | null => {
  const median = medianOf(offsets)
  return median !== null && median > maxSkew && offsets.length < minTrustedSamples ? 0 : median
}

/** `clockOffsets`: recent samples of server clock − our clock, in ms. */
export const estimateWatermark = (clockOffsets: ReadonlyArray<number>, sample: ClockSample): WatermarkEstimate => {
  const known = knownOffset(clockOffsets)
  const duration = Math.ceil(sample.duration)
  const byOurClock = sample.requestedAt + Math.min(0, known ?? 0) - resolution - duration
  if (sample.serverTime === null) return { watermark: byOurClock, clockOffsets, isSkewed: false }
  const byServerClock = sample.serverTime - resolution - duration
  const offset = Math.round(sample.serverTime - sample.requestedAt - sample.duration / 2)
  const next = [...clockOffsets, offset].slice(-maxSamples)
  if (known === null) {
    return { watermark: Math.min(byServerClock, byOurClock), clockOffsets: next, isSkewed: Math.abs(offset) > maxSkew }
  }
  const isSkewed = Math.abs(offset - known) > maxSkew
  return { watermark: isSkewed ? Math.min(byServerClock, byOurClock) : byServerClock, clockOffsets: next, isSkewed }
}

/**
 * Allows for the `Date` of a cache, which is minutes old: if every response has such a date, the known offset is wrong by as much. It is
 * smaller than the error of a local time that was sent as UTC.
 */
const maxLateness = 600_000

/**
 * Server time (ms) at which the response was complete. The estimate errs on the late side by up to `maxLateness` (the watermark
 * errs on the early side), so a time of a record after it was certainly still in the future. `clockOffsets`: as returned by
 * `estimateWatermark`. One of a few may be wrong by a day, so these only count if both clocks agree.
 */
export const latestServerTime = (clockOffsets: ReadonlyArray<number>, sample: ClockSample): number => {
  const median = medianOf(clockOffsets) ?? 0
  const isDoubtful = Math.abs(median) > maxSkew && clockOffsets.length < minTrustedSamples
  const byOurClock = sample.requestedAt + (isDoubtful ? 0 : median)
  const byServerClock = sample.serverTime === null ? -Infinity : sample.serverTime + resolution
  return Math.max(byOurClock, byServerClock) + Math.ceil(sample.duration) + maxLateness
}

/**
 * Server time (ms) up to which every change of a stream is published or pending: the previous watermark minus the stream's `overlap`. Null
 * until the backfill is complete. The result never decreases (`reportedTo`): after a rewind, or after the overlap has grown, polls merely
 * reread what was already complete. A minimum overlap that is raised in the configuration makes polls read further back, but does not
 * change the result.
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

/**
 * As `completeTo`. `from`: the source of a derived stream, which is complete as far as its source stream once its backfill is complete. If it
 * was a list before, it may have been complete further.
 */
export const completeToOf = <S extends StreamKey & Parameters<typeof completeTo>[0]>(
  state: S,
  from: Model | undefined,
  streams: ReadonlyArray<S>
): number | null => {
  if (from === undefined) return completeTo(state)
  const source = streams.find(({ integration, model }) => integration === state.integration && model === from)
  const complete = source === undefined || state.backfilledAt === null ? null : completeTo(source)
  return complete === null ? null : Math.max(complete, state.reportedTo ?? -Infinity)
}

/**
 * Server time (ms) that the previous watermark must pass before the result of `completeTo` moves again. Null if the result moves with each
 * complete poll. It does not move for a while after the overlap has grown, and after a rewind.
 */
export const movesAfter = (stream: Parameters<typeof completeTo>[0]): number | null => {
  const { overlap, previousWatermark, reportedTo } = stream
  const moves = reportedTo === undefined || previousWatermark === null || previousWatermark - overlap >= reportedTo
  return moves || completeTo(stream) === null ? null : reportedTo + overlap
}

/** Stores the current result of `completeTo` in the stream's state. */
export const updateReportedTo = <S extends Parameters<typeof completeTo>[0]>(stream: S): S => {
  const reportedTo = completeTo(stream)
  return reportedTo === null || reportedTo === stream.reportedTo ? stream : { ...stream, reportedTo }
}

/** Adds UTC to a time without a zone, and minutes to an offset that has only hours, which `Date.parse` does not accept. */
const zoned = (text: string): string => {
  if (text.length <= 10 || /[zZ]$|[+-]\d{2}:?\d{2}$/.test(text)) return text
  return /[+-]\d{2}$/.test(text) ? `${text}:00` : `${text}Z`
}

/** Formats a time in ms as RFC 3339 text in UTC. */
export const formatTime = (millis: number): string => new Date(millis).toISOString()

/** A time in a sentence: `2026-03-01 12:00:00 UTC`. From RFC 3339 text in UTC. */
export const timeInWords = (time: string): string => `${time.slice(0, 19).replace("T", " ")} UTC`

const instant = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/iu

/**
 * Parses a time that a caller wrote, and returns it in ms. Null if the text is not a time, if its day does not exist, or if it has no zone:
 * it would then mean another moment on each machine.
 */
export const parseInstant = (text: string): number | null => {
  const [, day] = instant.exec(text) ?? []
  const time = Date.parse(text)
  return isDay(day) && !Number.isNaN(time) ? time : null
}

/** Parses a record's timestamp, in any ISO form, and returns it in ms. Null if it is missing or not a time (W7, W9). */
export const parseTime = (value: unknown): number | null => {
  const time = typeof value === "string" ? Date.parse(zoned(value)) : Number.NaN
  return Number.isNaN(time) ? null : time
}
