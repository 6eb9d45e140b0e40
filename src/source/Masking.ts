/**
 * Masks the API's free text for logs and errors: keeps words that describe the problem, drops everything that may
 * identify a person   (I11).
 *
 * Invariants
 * 1. Digits, quoted text, addresses and capitalized words (names, labels) never pass
 *
 * Gotchas
 * - Codes such as `PLATFORM.INPUT_INVALID` pass; their separator distinguishes them from names.
 */

const placeholder = "…"
const maxLength = 200
const isCode = /^[A-Z][A-Z_]*[._][A-Z_.]*[A-Z]$/
const isPlain = /^[a-z]+(?:[-_'][a-z]+)*$/

const maskWord = (word: string): string => {
  const [, before = "", core = "", after = ""] = /^([([]*)(.*?)([)\],.:;!?]*)$/.exec(word) ?? []
  return core === "" || isPlain.test(core) || isCode.test(core) ? word : `${before}${placeholder}${after}`
}

/** At most 200 characters of plain lower-case words, codes and punctuation; each run of other text becomes one `…`. */
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

/** The value if it has the format of an API error code, else null: free text in the code field is dropped. */
export const codeOf = (value: unknown): string | null =>
  typeof value === "string" && /^[A-Z][A-Z0-9_.]{0,79}$/.test(value) ? value : null
