/** The rules of the command lines of programs that developers start. `test/integration/bench/CommandLines.long.test.ts` starts the programs. */
import { assert, describe, it } from "@effect/vitest"
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { switchFlag, withFallback } from "../src/cli/terminal/Flags.ts"
import * as CommandLine from "./support/CommandLine.ts"

const program = {
  command: "npm run x --",
  about: "Counts worlds.",
  options: {
    worlds: CommandLine.wholeArgument("worlds").pipe(Argument.withDefault(200)),
    count: withFallback(CommandLine.whole("count"), "how many", 3),
    seed: CommandLine.optional(CommandLine.whole("seed", 0), "the seed"),
    fast: switchFlag("fast", "without waits"),
    profile: Flag.Boolean("profile").pipe(Flag.withDefault(true)),
    only: CommandLine.optional(CommandLine.knownNames("only", ["reads", "writes"]), "only these"),
    mutant: CommandLine.optional(CommandLine.knownName("mutant", ["no-intent", "no-echo"]), "without it")
  }
}

/** The values of a command line, or the failure that ends the program with exit code 2, and the printed lines. */
const run = (text: string) =>
  Effect.gen(function*() {
    const printed: Array<string> = []
    const failed: Array<string> = []
    const values = yield* Effect.exit(CommandLine.parse(program, text.split(" ").filter(Boolean))).pipe(
      Effect.provideService(Console.Console, {
        ...console,
        log: (line: string) => printed.push(line),
        error: (line: string) => failed.push(line)
      })
    )
    return { values, printed, failed }
  })

describe("the command line of a program for developers", () => {
  it.effect("has values of their types, and the defaults of options that are not given", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* run(""), {
        values: Exit.succeed({
          worlds: 200,
          count: 3,
          seed: undefined,
          fast: false,
          profile: true,
          only: undefined,
          mutant: undefined
        }),
        printed: [],
        failed: []
      })
      const given = yield* run("20 --count 5 --seed=0 --fast --no-profile --only writes,reads --mutant no-echo")
      assert.deepStrictEqual(
        given.values,
        Exit.succeed({
          worlds: 20,
          count: 5,
          seed: 0,
          fast: true,
          profile: false,
          only: ["writes", "reads"],
          mutant: "no-echo"
        })
      )
    }))

  it.effect.each(["--help", "-h", "--sed 1 --help"])(
    "prints a line for each option with %s",
    (text) =>
      Effect.gen(function*() {
        const { failed, printed: [help = ""], values } = yield* run(text)
        assert.deepStrictEqual([values, failed], [Exit.succeed(undefined), []])
        for (
          const line of [
            /^ {2}Counts worlds\.$/m,
            /^ {2}npm run x -- \[flags\] \[<worlds>\]$/m,
            /^ {2}--count number +how many \(default: 3\)$/m,
            /^ {2}--only name,… +only these$/m
          ]
        ) assert.match(help, line)
      })
  )

  it.effect.each(
    [
      ["--sed 1", "Unrecognized flag: --sed; did you mean --seed?"],
      ["-s 1", "Unrecognized flag: -s."],
      ["--seed abc", 'Invalid value for flag --seed: "abc". Expected'],
      ["--seed=-1", 'Invalid value for flag --seed: "-1". Expected: a whole number from 0 on.'],
      ["--seed=", "Missing value for flag --seed."],
      ["--count 0", 'Invalid value for flag --count: "0". Expected: a whole number from 1 on.'],
      ["--count 1 --count 2", 'Invalid value for flag --count: "2 occurrences".'],
      ["--only reads,rites", 'Expected: known names; did you mean "writes" instead of "rites"?'],
      ["--mutant no-intents", 'Expected: a known name; did you mean "no-intent"?'],
      ["0", 'Invalid value for argument <worlds>: "0". Expected: a whole number from 1 on.'],
      ["1 2", 'Unexpected positional argument: "2".']
    ] as const
  )("refuses %s with one line", ([text, message]) =>
    Effect.gen(function*() {
      const { failed: [line = "", ...more], printed, values } = yield* run(text)
      assert.isTrue(Exit.isFailure(values))
      assert.deepStrictEqual([printed, more], [[], []])
      assert.include(line, message)
      assert.match(line, /^[^\n]*[.?] npm run x -- --help lists the options$/)
    }))
})
