/**
 * Matches untrusted patterns in linear time, so that no pattern can block the process.
 *
 * Invariants
 * 1. Matching takes time linear in the length of the text
 * 2. A pattern that cannot be matched in linear time (look-around, back references) is rejected, not approximated
 *
 * Gotchas
 * - A pattern matches anywhere in the text unless it is anchored, as in JSON Schema.
 */
import { RE2JS } from "re2js"

export type Matcher = (text: string) => boolean

/** Compiling takes time and memory proportional to the pattern's length after expanding counted repetitions. */
const longestPattern = 1000
const largestPattern = 200_000
/** The engine rejects more repetitions than this, multiplied over nesting levels. */
const largestRepetition = 1000

/** Upper bound of the pattern's length if `a{9}` were written as nine `a`. */
const expandedLength = (pattern: string): number => {
  const counts = [...pattern.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].map(([, from, to]) => Number(to || from))
  const repetition = counts.reduce((product, count) => Math.min(largestRepetition, product * Math.max(1, count)), 1)
  return pattern.length * repetition
}

/** The engine's syntax for a code unit is `\x{00e9}`, but patterns may use `\u00e9`; other escapes are left unchanged. */
const withCodeUnits = (pattern: string): string =>
  pattern.replaceAll(
    /\\(?:u([\dA-Fa-f]{4})|[^])/g,
    (escape, hex?: string) => hex === undefined ? escape : `\\x{${hex}}`
  )

/** Null if the pattern is invalid, too large, or cannot be matched in linear time. */
export const compilePattern = (pattern: string): Matcher | null => {
  if (pattern.length > longestPattern || expandedLength(pattern) > largestPattern) return null
  try {
    const compiled = RE2JS.compile(withCodeUnits(pattern))
    return (text) => compiled.test(text)
  } catch {
    return null
  }
}
