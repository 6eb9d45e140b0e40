/**
 * Makes the API's free text fit for logs and errors: keeps what names a fault, drops what may name a person   (I11).
 *
 * Invariants
 * 1. Digits, quoted text, addresses and words with a capital (names, labels) never pass.
 *
 * Gotchas
 * - Codes such as `PLATFORM.INPUT_INVALID` pass; they are told from names by their separator.
 */

const hidden = "…"
const longest = 200
const isCode = /^[A-Z][A-Z_]*[._][A-Z_.]*[A-Z]$/
const isPlain = /^[a-z]+(?:[-_'][a-z]+)*$/

const maskWord = (word: string): string => {
  const [, before = "", core = "", after = ""] = /^([([]*)(.*?)([)\],.:;!?]*)$/.exec(word) ?? []
  return core === "" || isPlain.test(core) || isCode.test(core) ? word : `${before}${hidden}${after}`
}

/** At most 200 characters of plain lower-case words, codes and punctuation; everything else is one `…`. */
export const masked = (text: string): string =>
  text
    .slice(0, 4 * longest)
    .replace(/"[^"]*("|$)|`[^`]*(`|$)|[“«„][^”»“]*([”»“]|$)|'[^']*'/g, hidden)
    .split(/\s+/)
    .map(maskWord)
    .join(" ")
    .replace(/…(?:\s+…)+/g, hidden)
    .trim()
    .slice(0, longest)

/** A code of the API's form, or null: free text in that place is dropped. */
export const codeOf = (value: unknown): string | null =>
  typeof value === "string" && /^[A-Z][A-Z0-9_.]{0,79}$/.test(value) ? value : null
