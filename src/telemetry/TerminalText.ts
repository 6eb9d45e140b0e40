/**
 * Makes text safe to print. Names and messages that come from records, APIs and plugins may contain control characters,
 * which a terminal obeys (they set its title, clear it, send keys), and format characters, which hide or reorder text.
 *
 * Invariants
 * 1. The output of `toTerminal` has no such character except line feeds and the colors of `paint`
 * 2. The output of `toTerminal` for JSON is the same JSON, because the escapes are those of JSON strings
 *
 * Gotchas
 * - Every print to a terminal, a pipe or a file goes through `toTerminal`. A line feed in a name would still forge a line,
 *   so text that goes into a line or a table cell goes through `oneLine` first.
 * - Colors are marked with a number that is drawn at each start, so other text cannot contain the mark.
 */
import { randomUUID } from "node:crypto"
import { styleText } from "node:util"

export type Color = "green" | "yellow" | "red" | "gray" | "cyan" | "bold"

/** Takes the place of the escape character in the colors of `paint` until they are printed. */
const mark = `\u001b${randomUUID()}`

/**
 * Matches colors, control characters, format characters (bidirectional, or of zero width), line separators and halves of surrogate pairs.
 */
const special = new RegExp(`${mark}\\[\\d+m|[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}]`, "gu")

const names: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }

/** `\u001b`; two such escapes for a character outside the basic plane. */
const escape = (character: string): string =>
  names[character] ??
    Array.from(
      { length: character.length },
      (_, unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, "0")}`
    ).join("")

const isColor = (match: string): boolean => match.startsWith(mark)

/** Escapes everything that could end or change the line. Keeps the colors of `paint`. */
export const oneLine = (text: string): string =>
  text.replace(special, (match) => isColor(match) ? match : escape(match))

/** The text as it is printed: with colors, and with every character escaped that the terminal would not show. */
export const toTerminal = (text: string): string =>
  text.replace(
    special,
    (match) => match === "\n" ? match : isColor(match) ? match.replace(mark, "\u001b") : escape(match)
  )

/** `14:02:11Z`. Every time on a terminal is in UTC, like those in events, in JSON logs and in the API, and ends with `Z`. */
export const timeOfDay = (at: Date | number | string): string => `${new Date(at).toISOString().slice(11, 19)}Z`

/** One line with a color, unless `NO_COLOR` is set or the stream is not a terminal. */
export const paint = (color: Color, text: string, stream: NodeJS.WriteStream = process.stdout): string =>
  styleText(color, "\0", { stream }).replaceAll("\u001b", mark).replace("\0", () => oneLine(text))
