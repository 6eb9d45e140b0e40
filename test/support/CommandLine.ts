/**
 * The command lines of programs that developers start, such as `npm run simulate`. `--help` prints the options. A mistake prints one line and
 * ends the process with exit code 2, because 1 means that the program found a fault of Rollcall.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Argument from "effect/cli/Argument"
import * as CliConfig from "effect/cli/CliConfig"
import type * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { closestName } from "../../src/domain/ClosestName.ts"

/** A whole number, `least` or greater. */
export const whole = (name: string, least = 1): Flag.Flag<number> =>
  Flag.Int(name).pipe(
    Flag.filter((value) => value >= least, () => `a whole number from ${least} on`),
    Flag.withMetavar("number")
  )

/** A whole number from 1 on, without the name of an option. */
export const wholeArgument = (name: string): Argument.Argument<number> =>
  Argument.Int(name).pipe(Argument.filter((value) => value >= 1, () => "a whole number from 1 on"))

/** Names separated by commas, all of them known. Lists of choices would be too long for the help and for a message. */
export const knownNames = (name: string, known: ReadonlyArray<string>): Flag.Flag<ReadonlyArray<string>> =>
  Flag.String(name).pipe(
    Flag.map((text) => text.split(",")),
    Flag.filter(
      (given) => given.every((each) => known.includes(each)),
      (given) => {
        const unknown = given.find((each) => !known.includes(each)) ?? ""
        return `known names; did you mean "${closestName(unknown, known)}" instead of "${unknown}"?`
      }
    ),
    Flag.withMetavar("name,…")
  )

/** One of the known names. */
export const knownName = (name: string, known: ReadonlyArray<string>): Flag.Flag<string> =>
  Flag.String(name).pipe(
    Flag.filter(
      (given) => known.includes(given),
      (given) => `a known name; did you mean "${closestName(given, known)}"?`
    ),
    Flag.withMetavar("name")
  )

/** `undefined` if the option is not given. */
export const optional = <A>(flag: Flag.Flag<A>, description: string): Flag.Flag<A | undefined> =>
  flag.pipe(Flag.withDescription(description), Flag.withDefault(undefined))

export interface Program<Options extends Command.Command.Config> {
  /** How the program is started: `npm run simulate --`. */
  readonly command: string
  readonly about: string
  readonly options: Options
}

const lineOf = (command: string, error: CliError.NonShowHelpErrors): string => {
  const what = error._tag === "UnrecognizedOption"
    ? [`Unrecognized flag: ${error.option}`, ...error.suggestions.map((name) => `did you mean ${name}?`)].join("; ")
    : error.message.replaceAll("\n", " ")
  return `${what}${what.endsWith("?") ? "" : "."} ${command} --help lists the options`
}

/** The values of the options; `undefined` after `--help`. */
export const parse = <const Options extends Command.Command.Config>(
  { about, command, options }: Program<Options>,
  args: ReadonlyArray<string>
) =>
  Effect.gen(function*() {
    let values: Command.Command.Config.Infer<Options> | undefined
    const program = Command.make(command, options, (given) => Effect.sync(() => values = given))
    yield* Command.runWith(Command.withDescription(program, about), { version: "" })(args)
    return values
  }).pipe(
    Effect.provide(NodeServices.layer),
    Effect.provide(CliConfig.layer({ builtIns: [GlobalFlag.Help] })),
    Effect.provide(CliOutput.layerPresenter({
      present: (event) =>
        event._tag === "InvalidInvocation"
          ? Console.error(lineOf(command, event.errors[0]!))
          : CliOutput.defaultPresenter.present(event)
    }))
  )

/** The options of this process. Ends it after `--help` and after a mistake. */
export const read = <const Options extends Command.Command.Config>(program: Program<Options>) =>
  parse(program, process.argv.slice(2)).pipe(
    Effect.catch(() => Effect.sync(() => process.exit(2))),
    Effect.map((values) => values ?? process.exit(0)),
    Effect.runPromise
  )
