/**
 * Makes the API's free text fit for logs and errors: keeps what names a fault, drops what may name a person   (I11).
 *
 * Invariants
 * 1. Digits, quoted text, addresses and words with a capital (names, labels) never pass.
 *
 * Gotchas
 * - Codes such as `PLATFORM.INPUT_INVALID` pass; they are told from names by their separator.
 */

const placeholder = "…"
const maxLength = 200
const isCode = /^[A-Z][A-Z_]*[._][A-Z_.]*[A-Z]$/
const isPlain = /^[a-z]+(?:[-_'][a-z]+)*$/

const maskWord = (word: string): string => {
  const [, before = "", core = "", after = ""] = /^([([]*)(.*?)([)\],.:;!?]*)$/.exec(word) ?? []
  return core === "" || isPlain.test(core) || isCode.test(core) ? word : `${before}${placeholder}${after}`
}

/** At most 200 characters of plain lower-case words, codes and punctuation; everything else is one `…`. */
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

/** A code of the API's form, or null: free text in that place is dropped. */
export const codeOf = (value: unknown): string | null =>
  typeof value === "string" && /^[A-Z][A-Z0-9_.]{0,79}$/.test(value) ? value : null
