/** JSON texts of a value, spelled as an API may spell them: with other white space, escapes, numbers and orders of the properties. */
import { scanValue } from "../../../src/domain/JsonScan.ts"
import { RawRow } from "../../../src/domain/RawRow.ts"
import type { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import type { ParsedPage } from "./Doubles.ts"

/** The probability of each freedom in a text, from 0 to 1. */
export interface Spelling {
  readonly space: number
  readonly escapes: number
  readonly numbers: number
  /** A property is moved to the end of its object. */
  readonly order: number
  /** A property is preceded by one with the same name and another value, which does not count. */
  readonly repeated: number
}

/** As `JSON.stringify` spells it. */
export const compact: Spelling = { space: 0, escapes: 0, numbers: 0, order: 0, repeated: 0 }

/** Looks like the end of a row and the beginning of another one, unless the escapes of its quotes are read. */
const earlier = '"}]},{"id":"\\'
const spaces = [" ", "\n", "\t", "\r", "  ", "\r\n\t"]
const shortEscapes: Readonly<Record<string, string>> = { "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n" }

export const spell = (value: unknown, random: SeededRandom, spelling: Spelling): string => {
  const space = () => random.boolean(spelling.space) ? random.pick(spaces) : ""
  const escaped = (character: string): string => {
    const short = shortEscapes[character]
    if (short !== undefined && random.boolean(0.5)) return short
    const code = character.charCodeAt(0).toString(16).padStart(4, "0")
    return `\\u${random.boolean(0.5) ? code.toUpperCase() : code}`
  }
  const text = (one: string): string =>
    spelling.escapes === 0 ? JSON.stringify(one) : `"${
      // by UTF-16 unit: half a surrogate pair can only be written as an escape
      one.split("").map((character) =>
        random.boolean(spelling.escapes) || !character.isWellFormed()
          ? escaped(character)
          : JSON.stringify(character).slice(1, -1)
      ).join("")}"`
  const number = (one: number): string => {
    if (!random.boolean(spelling.numbers)) return JSON.stringify(one)
    // twenty digits after the point are too few for a small number with many of its own (world 768338732)
    const fixed = Number(one.toFixed(20)) === one ? one.toFixed(20) : String(one)
    const withExponent = String(one).includes("e") ? String(one) : `${one}e0`
    return random.pick([one.toExponential(), one.toExponential().replace("e+", "E"), fixed, withExponent])
  }
  const write = (one: unknown): string => {
    if (typeof one === "string") return text(one)
    if (typeof one === "number" && Number.isFinite(one)) return number(one)
    if (Array.isArray(one)) {
      return `[${space()}${one.map((member) => `${write(member)}${space()}`).join(`,${space()}`)}]`
    }
    if (typeof one !== "object" || one === null) return JSON.stringify(one) ?? "null"
    const properties = Object.entries(one).filter(([, member]) => member !== undefined)
    const moved = properties.map((property) => ({ property, last: random.boolean(spelling.order) }))
    const ordered = [...moved.filter(({ last }) => !last), ...moved.filter(({ last }) => last)]
    const members = ordered.flatMap(({ property: [name, member] }) => {
      const pair = (inner: unknown) => `${text(name)}${space()}:${space()}${write(inner)}${space()}`
      return random.boolean(spelling.repeated) ? [pair([{ [name]: earlier }]), pair(member)] : [pair(member)]
    })
    return `{${space()}${members.join(`,${space()}`)}}`
  }
  return write(value)
}

/** The page with rows that are indented by this many spaces: their bytes change, their content does not. */
export const indented = (spaces: number) => (_: unknown, page: ParsedPage): ParsedPage => ({
  ...page,
  results: page.results.map((row) => {
    const bytes = Buffer.from(JSON.stringify(row, null, spaces))
    return new RawRow(bytes, scanValue(bytes, 0)!)
  })
})
