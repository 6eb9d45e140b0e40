/**
 * Finds the handlers whose attempts make memory grow, once the heap fills up and full garbage collections do not free it.
 *
 * Gotchas
 * - Only memory that is still in use after a full collection is considered.
 * - Handlers that always run together cannot be distinguished, so all of them are named.
 */

/** The state after a full collection. */
export interface Sample {
  /** Bytes in use. */
  readonly heap: number
  /** Attempts so far, by handler. */
  readonly attempts: ReadonlyMap<string, number>
}

/** Full collections that are compared. As the heap fills up they become rarer, until it is full. */
export const comparedCollections = 5
/** Share of the largest possible heap below which growth is not reported. */
const minHeapShare = 0.5
/** Share of the steps that must rise if memory grows, and share of the rising steps in which a suspect must have run. */
const minShare = 0.8
/** Below this correlation the attempts of a handler do not explain the growth. */
const minCorrelation = 0.3

interface Step {
  readonly growth: number
  readonly attempts: (handler: string) => number
}

const mean = (values: ReadonlyArray<number>): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** Squared correlation of growth and attempts: 0 if unrelated, 1 if they match exactly. */
const correlationOf = (steps: ReadonlyArray<Step>, handler: string): number => {
  const growths = steps.map(({ growth }) => growth)
  const counts = steps.map(({ attempts }) => attempts(handler))
  const [meanGrowth, meanCount] = [mean(growths), mean(counts)]
  let [both, growth, count] = [0, 0, 0]
  for (const [index, value] of counts.entries()) {
    const [a, b] = [growths[index]! - meanGrowth, value - meanCount]
    both += a * b
    growth += a * a
    count += b * b
  }
  return both <= 0 || growth === 0 || count === 0 ? 0 : both ** 2 / (growth * count)
}

/** Null if memory does not grow; empty if it grows, but not because of a handler. `limit`: the largest possible heap, bytes. */
export const suspects = (samples: ReadonlyArray<Sample>, limit: number): ReadonlyArray<string> | null => {
  const latest = samples.slice(-comparedCollections)
  const newest = latest.at(-1)
  if (newest === undefined || latest.length < comparedCollections || newest.heap < minHeapShare * limit) return null
  const steps = latest.slice(1).map(({ attempts, heap }, index): Step => {
    const before = latest[index]!
    return {
      growth: heap - before.heap,
      attempts: (handler) => (attempts.get(handler) ?? 0) - (before.attempts.get(handler) ?? 0)
    }
  })
  const rising = steps.filter(({ growth }) => growth > 0)
  if (rising.length < minShare * steps.length) return null
  const present = [...newest.attempts.keys()].filter((handler) =>
    rising.filter(({ attempts }) => attempts(handler) > 0).length >= minShare * rising.length
  )
  const correlations = new Map(present.map((handler) => [handler, correlationOf(steps, handler)]))
  const closest = Math.max(0, ...correlations.values())
  return closest < minCorrelation ? present : present.filter((handler) => correlations.get(handler)! >= closest / 2)
}
