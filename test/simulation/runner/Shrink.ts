/** Removes steps from a plan while it still fails in the same way (delta debugging). */
import type { Violation } from "../oracle/Oracle.ts"
import type { Plan, Step } from "../plan/Plan.ts"
import { simulate } from "../Simulation.ts"

/** Identifies a violation regardless of its record and time. */
export const signatureOf = ({ invariant, what }: Violation): string =>
  `${invariant} ${what.replace(/[1-9A-HJ-NP-Za-km-z]{24}/g, "…").replace(/\{.*\}|\d+/g, "#")}`

/** Runs at most `tries` worlds. */
export const shrink = (plan: Plan, tries = 400): Plan => {
  const signatures = new Set(simulate(plan).violations.map(signatureOf))
  let left = tries
  const fails = (steps: ReadonlyArray<Step>): boolean => {
    if (left-- <= 0) return false
    return simulate({ ...plan, steps }).violations.some((violation) => signatures.has(signatureOf(violation)))
  }
  let steps = plan.steps
  let parts = 2
  while (steps.length > 1 && left > 0) {
    const size = Math.ceil(steps.length / parts)
    const rest = Array.from({ length: parts }, (_, part) => [
      ...steps.slice(0, part * size),
      ...steps.slice((part + 1) * size)
    ]).find((candidate) => candidate.length < steps.length && fails(candidate))
    if (rest !== undefined) {
      steps = rest
      parts = Math.max(2, parts - 1)
    } else if (size === 1) break
    else parts = Math.min(steps.length, parts * 2)
  }
  return { ...plan, steps }
}
