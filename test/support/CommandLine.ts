/**
 * The command lines of programs that developers start, such as `npm run simulate`. `--help` prints the options. A mistake prints one line and
 * ends the process with exit code 2, because 1 means that the program found a fault of Rollcall.
 */
import { parseArgs } from "node:util"
import { closestName } from "../../src/domain/ClosestName.ts"

interface Described {
  readonly about: string
}
/** Off by default. One that is on by default (`on`) is switched off by `--no-<name>`. */
interface Flag extends Described {
  readonly type: "flag"
  readonly on?: true
}
/** A whole number, `least` (1 by default) or greater. */
interface Whole extends Described {
  readonly type: "number"
  readonly least?: number
  readonly default?: number
}
interface Text extends Described {
  readonly type: "text"
  readonly default?: string
}
/** Some of the known names, separated by commas; `name`: exactly one of them. */
interface Names extends Described {
  readonly type: "names" | "name"
  readonly known: ReadonlyArray<string>
}
type Option = Flag | Whole | Text | Names
type Options = Readonly<Record<string, Option>>

type Otherwise<O, D> = O extends { readonly default: D } ? never : undefined
type ValueOf<O extends Option> = O extends Flag ? boolean
  : O extends Whole ? number | Otherwise<O, number>
  : O extends Text ? string | Otherwise<O, string>
  : O extends { readonly type: "names" } ? ReadonlyArray<string> | undefined
  : string | undefined
type Values<O extends Options> = { readonly [N in keyof O]: ValueOf<O[N]> }

export interface Program<O extends Options> {
  /** How the program is started: `npm run simulate --`. */
  readonly command: string
  readonly about: string
  readonly options: O
  /** Names of whole numbers (from 1 on) that follow the command without the name of an option. All of them may be left out. */
  readonly numbers?: ReadonlyArray<string>
}

type Parsed<O extends Options> =
  | { readonly _tag: "Values"; readonly values: Values<O>; readonly numbers: ReadonlyArray<number> }
  | { readonly _tag: "Help" | "Mistake"; readonly text: string }

const forms = { number: "<number>", text: "<text>", name: "<name>", names: "<name>,…" } as const

const spelled = (name: string, option: Option): string =>
  option.type === "flag" ? `--${option.on === true ? "no-" : ""}${name}` : `--${name} ${forms[option.type]}`

const helpOf = ({ about, command, numbers = [], options }: Program<Options>): string => {
  const rows = Object.entries(options).map(([name, option]) => {
    const otherwise = "default" in option ? ` (${option.default})` : ""
    return [spelled(name, option), `${option.about}${otherwise}`] as const
  })
  const width = Math.max(...rows.map(([left]) => left.length))
  const usage = [command, ...numbers.map((name) => `[${name}]`), "[options]"].join(" ")
  return [about, "", usage, "", ...rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)].join("\n")
}

/** The mistake in a value. */
class Wrong {
  readonly why: string
  constructor(why: string) {
    this.why = why
  }
}

const wholeOf = (text: string, least: number): number | Wrong =>
  /^\d+$/.test(text) && Number.isSafeInteger(Number(text)) && Number(text) >= least
    ? Number(text)
    : new Wrong(`needs a whole number from ${least} on, not "${text}"`)

const knownOf = (names: ReadonlyArray<string>, known: ReadonlyArray<string>): ReadonlyArray<string> | Wrong => {
  const unknown = names.find((name) => !known.includes(name))
  return unknown === undefined
    ? names
    : new Wrong(`does not know "${unknown}"; did you mean "${closestName(unknown, known)}"?`)
}

const valueOf = (option: Exclude<Option, Flag>, text: string): unknown => {
  switch (option.type) {
    case "text":
      return text
    case "number":
      return wholeOf(text, option.least ?? 1)
    case "names":
      return knownOf(text.split(","), option.known)
    case "name": {
      const found = knownOf([text], option.known)
      return found instanceof Wrong ? found : text
    }
  }
}

export const parse = <const O extends Options>(program: Program<O>, args: ReadonlyArray<string>): Parsed<O> => {
  const options: Options = program.options
  const { numbers = [] } = program
  const mistake = (what: string) =>
    ({
      _tag: "Mistake",
      text: `${what}${what.endsWith("?") ? "" : "."} ${program.command} --help lists the options`
    }) as const
  const { tokens } = parseArgs({
    args: [...args],
    strict: false,
    tokens: true,
    options: {
      ...Object.fromEntries(
        Object.entries(options).map(([name, { type }]) =>
          [name, { type: type === "flag" ? "boolean" : "string" }] as const
        )
      ),
      help: { type: "boolean", short: "h" }
    }
  })
  if (tokens.some((token) => token.kind === "option" && token.name === "help")) {
    return { _tag: "Help", text: helpOf(program) }
  }
  const values: Record<string, unknown> = Object.fromEntries(
    Object.entries(options).map(([name, option]) =>
      [name, option.type === "flag" ? option.on === true : "default" in option ? option.default : undefined] as const
    )
  )
  const positions: Array<number> = []
  for (const token of tokens) {
    if (token.kind === "option-terminator") continue
    if (token.kind === "positional") {
      const name = numbers[positions.length]
      if (name === undefined) return mistake(`"${token.value}" is not an option`)
      const number = wholeOf(token.value, 1)
      if (number instanceof Wrong) return mistake(`${name} ${number.why}`)
      positions.push(number)
      continue
    }
    const { inlineValue = false, name: given, rawName, value: text } = token
    const name = given.startsWith("no-") && options[given.slice(3)]?.type === "flag" ? given.slice(3) : given
    const option = Object.hasOwn(options, name) ? options[name] : undefined
    if (option === undefined) {
      return mistake(`there is no option ${rawName}; did you mean --${closestName(given, Object.keys(options))}?`)
    }
    if (option.type === "flag") {
      if (text !== undefined) return mistake(`${rawName} takes no value`)
      values[name] = name === given
      continue
    }
    if (text === undefined || (!inlineValue && text.startsWith("--"))) return mistake(`${rawName} needs a value`)
    const value = valueOf(option, text)
    if (value instanceof Wrong) return mistake(`${rawName} ${value.why}`)
    values[name] = value
  }
  return { _tag: "Values", values: values as Values<O>, numbers: positions }
}

/** The options of this process. Ends it after `--help` and after a mistake. */
export const read = <const O extends Options>(program: Program<O>) => {
  const parsed = parse(program, process.argv.slice(2))
  if (parsed._tag === "Values") return parsed
  if (parsed._tag === "Help") console.log(parsed.text)
  else console.error(parsed.text)
  return process.exit(parsed._tag === "Help" ? 0 : 2)
}
