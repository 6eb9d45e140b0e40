/** The rules of the command lines of programs that developers start. `test/integration/bench/CommandLines.test.ts` starts the programs. */
import { assert, describe, it } from "@effect/vitest"
import * as CommandLine from "./support/CommandLine.ts"

const program = {
  command: "npm run x --",
  about: "Counts worlds.",
  numbers: ["worlds", "first-seed"],
  options: {
    count: { type: "number", default: 3, about: "how many" },
    seed: { type: "number", least: 0, about: "the seed" },
    file: { type: "text", about: "a file" },
    fast: { type: "flag", about: "without waits" },
    profile: { type: "flag", on: true, about: "do not profile" },
    only: { type: "names", known: ["reads", "writes"], about: "only these" },
    mutant: { type: "name", known: ["no-intent", "no-echo"], about: "without it" }
  }
} as const

const parse = (text: string) => CommandLine.parse(program, text.split(" ").filter(Boolean))
const textOf = (parsed: ReturnType<typeof parse>) => parsed._tag === "Values" ? "" : parsed.text

describe("the command line of a program for developers", () => {
  it("has values of their types, and the defaults of options that are not given", () => {
    const otherwise = {
      count: 3,
      seed: undefined,
      file: undefined,
      fast: false,
      profile: true,
      only: undefined,
      mutant: undefined
    }
    assert.deepStrictEqual(parse(""), { _tag: "Values", values: otherwise, numbers: [] })
    const given = parse("20 --count 5 --seed=0 --file a=b --fast --no-profile --only writes,reads --mutant no-echo 7")
    assert.deepStrictEqual(given, {
      _tag: "Values",
      values: {
        count: 5,
        seed: 0,
        file: "a=b",
        fast: true,
        profile: false,
        only: ["writes", "reads"],
        mutant: "no-echo"
      },
      numbers: [20, 7]
    })
  })

  it("prints a line for each option with --help, even beside a mistake", () => {
    for (const text of ["--help", "-h", "--sed 1 --help"]) {
      const parsed = parse(text)
      assert.strictEqual(parsed._tag, "Help")
      const lines = textOf(parsed).split("\n")
      assert.deepStrictEqual(lines.slice(0, 3), ["Counts worlds.", "", "npm run x -- [worlds] [first-seed] [options]"])
      assert.include(lines, "  --count <number>  how many (3)")
      assert.include(lines, "  --no-profile      do not profile")
      assert.include(lines, "  --only <name>,…   only these")
      assert.lengthOf(lines, 4 + Object.keys(program.options).length)
    }
  })

  it.each([
    ["--sed 1", "there is no option --sed; did you mean --seed?"],
    ["-s 1", "there is no option -s; did you mean --"],
    ["--seed abc", '--seed needs a whole number from 0 on, not "abc"'],
    ["--seed=-1", '--seed needs a whole number from 0 on, not "-1"'],
    ["--seed 1.5", "--seed needs a whole number from 0 on"],
    ["--seed=", "--seed needs a whole number from 0 on"],
    ["--seed", "--seed needs a value"],
    ["--seed --fast", "--seed needs a value"],
    ["--count 0", "--count needs a whole number from 1 on"],
    ["--count 99999999999999999999", "--count needs a whole number from 1 on"],
    ["--fast=yes", "--fast takes no value"],
    ["--only reads,rites", '--only does not know "rites"; did you mean "writes"?'],
    ["--mutant no-intents", '--mutant does not know "no-intents"; did you mean "no-intent"?'],
    ["--mutant no-intent,no-echo", "--mutant"],
    ["x", 'worlds needs a whole number from 1 on, not "x"'],
    ["1 2 3", '"3" is not an option'],
    ["--no-seed", "there is no option --no-seed"],
    ["--constructor 1", "there is no option --constructor"]
  ])("refuses %s with one line", (text, message) => {
    const parsed = parse(text)
    assert.strictEqual(parsed._tag, "Mistake")
    assert.include(textOf(parsed), message)
    assert.match(textOf(parsed), /^[^\n]* npm run x -- --help lists the options$/)
  })
})
