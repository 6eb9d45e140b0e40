/**
 * Decides which configured values a message may quote. A secret may be in the wrong variable, and messages end up in logs.
 *
 * Invariants
 * 1. A text with 16 or more letters and digits in a row, a login (`user:password@`), or a character that names and numbers
 *    do not have is never quoted   (I11)
 *
 * Gotchas
 * - A short password that is a word looks like a misspelled name, and is quoted.
 */

const maxLength = 64

/** Letters, digits and the punctuation of names, numbers, paths, hosts and placeholders. `@` is left out, because it follows a login. */
const plain = /^[\p{L}\p{N} :/.,_{}<>[\]()*+-]*$/u

const words = /[\p{L}\p{N}]+/gu

/**
 * A name with up to three digits, or a number with up to three letters. A secret key has more digits, or mixes letters with digits, or
 * upper with lower case.
 */
const isWord = (run: string): boolean =>
  run.length < 16 && /^(\p{L}*\p{N}{0,3}|\p{N}{1,6}\p{L}{0,3})$/u.test(run) &&
  (run.match(/\p{Ll}\p{Lu}/gu)?.length ?? 0) <= 2

/** Whether a text looks like a name or a number, and not like a secret. */
export const isHarmless = (text: string): boolean =>
  text.length <= maxLength && plain.test(text) && (text.trim().match(/\s+/g)?.length ?? 0) <= 1 &&
  (text.match(words) ?? []).every(isWord)

const lengthOf = (text: string): string => `${text.length} characters`

/** The text, or only its length if it may be a secret. */
export const display = (text: string): string => isHarmless(text) ? text : `(${lengthOf(text)})`

/** Replaces a part of a message, regardless of upper and lower case. */
const replaced = (message: string, part: string, by: string): string => {
  const [text, sought] = [message.toLowerCase(), part.toLowerCase()]
  // some characters have another length in lower case
  if (text.length !== message.length || sought.length !== part.length) {
    return message.replaceAll(part, by).replaceAll(sought, by)
  }
  let result = ""
  let end = 0
  for (let start = text.indexOf(sought); start >= 0; start = text.indexOf(sought, end)) {
    result += `${message.slice(end, start)}${by}`
    end = start + part.length
  }
  return `${result}${message.slice(end)}`
}

/** Replaces `value` in a message by its length, if `value` may be a secret. */
export const withoutValue = (message: string, value: string): string => {
  if (value === "" || isHarmless(value)) return message
  const unquoted = replaced(message, `"${value}"`, `the value (${lengthOf(value)})`)
  return replaced(unquoted, value, `(${lengthOf(value)})`)
}

/** Replaces each token that may be a secret in a message of another program by its length. `keep`: exceptions, such as file paths. */
export const withoutSecrets = (message: string, keep: (token: string) => boolean): string =>
  message.replace(/[^\s'"`()]+/g, (token) => keep(token) ? token : display(token))
