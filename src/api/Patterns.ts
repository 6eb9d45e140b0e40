/**
 * Foreign patterns, matched in linear time: hides the engine, so that no pattern can make us hang.
 *
 * Invariants
 * 1. Matching takes time linear in the text
 * 2. A pattern that cannot be matched so (look-around, back references) is refused, not approximated
 *
 * Gotchas
 * - A pattern matches anywhere in the text unless it is anchored, as in JSON Schema.
 */
import { RE2JS } from "re2js"

export type Matcher = (text: string) => boolean

/** Compiling costs time and memory by the length of the pattern, counted repetitions written out. */
const longestPattern = 1000
const largestPattern = 200_000
/** More than this, nested, is refused by the engine. */
const largestRepetition = 1000

/** At most so many characters, were `a{9}` written as nine `a`. */
const expandedLength = (pattern: string): number => {
  const counts = [...pattern.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].map(([, from, to]) => Number(to || from))
  const repetition = counts.reduce((product, count) => Math.min(largestRepetition, product * Math.max(1, count)), 1)
  return pattern.length * repetition
}

/** The engine writes a code unit as `\x{00e9}`, foreign patterns write `\u00e9`; all else is left for it to refuse. */
const withCodeUnits = (pattern: string): string =>
  pattern.replaceAll(
    /\\(?:u([\dA-Fa-f]{4})|[^])/g,
    (escape, hex?: string) => hex === undefined ? escape : `\\x{${hex}}`
  )

/** Null: not a pattern, too large, or not one that linear time allows. */
export const compilePattern = (pattern: string): Matcher | null => {
  if (pattern.length > longestPattern || expandedLength(pattern) > largestPattern) return null
  try {
    const compiled = RE2JS.compile(withCodeUnits(pattern))
    return (text) => compiled.test(text)
  } catch {
    return null
  }
}
