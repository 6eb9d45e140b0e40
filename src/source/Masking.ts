/**
 * Masks the API's free text for logs and errors: keeps the words of a fixed list, which describe the problem, and drops
 * everything else, because it may identify a person   (I11).
 *
 * Invariants
 * 1. Only the words in `PlainWords.ts`, codes made of these words, the codes that the API publishes, and punctuation pass
 *
 * Gotchas
 * - Codes such as `PLATFORM.INPUT_INVALID` pass; their separator distinguishes them from names in capitals.
 */
import { errorCodes } from "../api/ErrorClassification.ts"
import { plainWords } from "./PlainWords.ts"

const placeholder = "…"
const maxLength = 200
const codePattern = /^[A-Z]+(?:[._][A-Z]+)+$/
const wordPattern = /^[a-z]+(?:[-_'][a-z]+)*$/

const isPlain = (word: string): boolean =>
  (wordPattern.test(word) || codePattern.test(word)) &&
  word.toLowerCase().split(/[-_'.]/).every((part) => plainWords.has(part))

const maskWord = (word: string): string => {
  const [, before = "", core = "", after = ""] = /^([([]*)(.*?)([)\],.:;!?]*)$/.exec(word) ?? []
  return core === "" || isPlain(core) ? word : `${before}${placeholder}${after}`
}

/** At most 200 characters of known words in lower case, codes and punctuation; each stretch of other text becomes one `…`. */
export const mask = (text: string): string =>
  text
    .slice(0, 4 * maxLength)
    .replace(/"[^"]*("|$)|`[^`]*(`|$)|[“«„][^”»“]*([”»“]|$)|'[^']*'/g, placeholder)
    .split(/\s+/)
    .map(maskWord)
    .join(" ")
    .replace(/…(?:\s+…)+/g, placeholder)
    .trim()
    .slice(0, maxLength)

/** The value if it is a code that the API publishes, or a code made of known words, else null: the field may contain free text. */
export const codeOf = (value: unknown): string | null =>
  typeof value === "string" &&
    (Object.hasOwn(errorCodes, value) || (value.length <= maxLength && codePattern.test(value) && isPlain(value)))
    ? value
    : null
