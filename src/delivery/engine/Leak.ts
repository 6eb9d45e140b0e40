/**
 * Names the handlers with whose attempts memory grows, once it fills up and does not come back.
 *
 * Gotchas
 * - Only what a full collection leaves counts: what is merely not collected yet is no leak.
 * - Handlers that always run together cannot be told apart: all of them are named.
 */

/** The state after a full collection. */
export interface Sample {
  /** Bytes in use. */
  readonly heap: number
  /** Handler → attempts so far. */
  readonly attempts: ReadonlyMap<string, number>
}

/** Collections that are looked at: the fuller the heap, the rarer they are, until it is full. */
export const span = 5
/** Share of the largest possible heap below which growth worries nobody. */
const roomy = 0.5
/** Share of the steps that go up where memory does not come back, and in which a suspect took part. */
const mostly = 0.8
/** Below this, what a handler does and how memory grows have nothing to do with each other. */
const related = 0.3

interface Step {
  readonly growth: number
  readonly attempts: (handler: string) => number
}

const mean = (values: ReadonlyArray<number>): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** How far growth follows attempts: 0 not at all, 1 exactly. */
const relation = (steps: ReadonlyArray<Step>, handler: string): number => {
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

/** null: memory is well. Empty: it grows, whatever handlers do. `limit`: bytes that there can be. */
export const suspects = (samples: ReadonlyArray<Sample>, limit: number): ReadonlyArray<string> | null => {
  const latest = samples.slice(-span)
  const newest = latest.at(-1)
  if (newest === undefined || latest.length < span || newest.heap < roomy * limit) return null
  const steps = latest.slice(1).map(({ attempts, heap }, index): Step => {
    const before = latest[index]!
    return {
      growth: heap - before.heap,
      attempts: (handler) => (attempts.get(handler) ?? 0) - (before.attempts.get(handler) ?? 0)
    }
  })
  const rising = steps.filter(({ growth }) => growth > 0)
  if (rising.length < mostly * steps.length) return null
  const present = [...newest.attempts.keys()].filter((handler) =>
    rising.filter(({ attempts }) => attempts(handler) > 0).length >= mostly * rising.length
  )
  const relations = new Map(present.map((handler) => [handler, relation(steps, handler)]))
  const closest = Math.max(0, ...relations.values())
  return closest < related ? present : present.filter((handler) => relations.get(handler)! >= closest / 2)
}
