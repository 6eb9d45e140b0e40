/**
 * How far the deliveries of a redrive or a replay are. The commands and the console share these rules, and the store counts by them.
 *
 * Gotchas
 * - The console is built with this file, so it imports nothing.
 */

/** Consecutive ids of deliveries; both ends are included. */
export interface IdRange {
  readonly first: number
  readonly last: number
}

export interface DeliveryProgress {
  /** Settled: the store no longer has them. */
  readonly done: number
  /** They wait for their time or for an earlier delivery, or they run. */
  readonly open: number
  /** Dead letters. */
  readonly dead: number
}

/** The most ranges in one request. */
export const rangesPerRequest = 1000

/** The ranges that contain exactly these ids. */
export const rangesOf = (ids: Iterable<number>): ReadonlyArray<IdRange> => {
  const ranges: Array<{ first: number; last: number }> = []
  for (const id of [...new Set(ids)].sort((a, b) => a - b)) {
    const range = ranges.at(-1)
    if (range?.last === id - 1) range.last = id
    else ranges.push({ first: id, last: id })
  }
  return ranges
}

/** The number of ids in these ranges. */
export const sizeOf = (ranges: ReadonlyArray<IdRange>): number =>
  ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0)

/** The ranges of each request that counts them. */
export const requestsOf = (ranges: ReadonlyArray<IdRange>): ReadonlyArray<ReadonlyArray<IdRange>> =>
  Array.from(
    { length: Math.ceil(ranges.length / rangesPerRequest) },
    (_, index) => ranges.slice(index * rangesPerRequest, (index + 1) * rangesPerRequest)
  )

/** The sum of the responses to these requests. */
export const sumOf = (parts: ReadonlyArray<DeliveryProgress>): DeliveryProgress => ({
  done: parts.reduce((sum, { done }) => sum + done, 0),
  open: parts.reduce((sum, { open }) => sum + open, 0),
  dead: parts.reduce((sum, { dead }) => sum + dead, 0)
})

/**
 * By the rate so far, but not before the last of them is due; null while neither is known. `elapsed`: since they were sent, `due`: until
 * the last of them is due; all in seconds.
 */
export const secondsLeft = (
  { dead, done, open }: DeliveryProgress,
  { due, elapsed }: { readonly elapsed: number; readonly due: number }
): number | null => {
  const byRate = done + dead === 0 ? null : open / (done + dead) * elapsed
  return due < 1 ? byRate : Math.max(due, byRate ?? 0)
}
