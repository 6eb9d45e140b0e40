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
import { knownError } from "../api/ErrorClassification.ts"
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

/** The title of an error: whole if it is the known title of its code, or missing; else masked. Null if there is none. */
export const titleOf = (code: string | null, title: unknown): string | null => {
  const known = knownError(code)?.[2] ?? null
  return typeof title !== "string" || title === "" || title === known ? known : mask(title)
}

const longestUrl = 300

/** The value if it is an https URL without a login, of visible ASCII and at most 300 characters; else null. */
export const logUrlOf = (value: unknown): string | null => {
  const url = typeof value === "string" && /^https:[!-~]{1,300}$/i.test(value) ? URL.parse(value) : null
  return url === null || url.username !== "" || url.password !== "" || url.href.length > longestUrl ? null : url.href
}

/** The value if it is a code that the API publishes, or a code made of known words, else null: the field may contain free text. */
export const codeOf = (value: unknown): string | null =>
  typeof value === "string" &&
    (knownError(value) !== undefined || (value.length <= maxLength && codePattern.test(value) && isPlain(value)))
    ? value
    : null
