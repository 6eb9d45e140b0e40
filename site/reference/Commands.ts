/** The page of commands: what `--help` prints for each. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import type * as HelpDoc from "effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { commands } from "../../src/cli/Rollcall.ts"
import { table } from "./Markdown.ts"

const run = Command.runWith(commands, { version: "" })

/** The help of a command and of all below it. */
const helpOf = (path: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<HelpDoc.HelpDoc>> =>
  Effect.gen(function*() {
    const found: Array<HelpDoc.HelpDoc> = []
    const presenter = CliOutput.layerPresenter({
      present: (event) => Effect.sync(() => void (event._tag === "Help" && found.push(event.helpDoc)))
    })
    yield* run([...path, "--help"]).pipe(Effect.provide(presenter), Effect.provide(NodeServices.layer), Effect.ignore)
    const names = found.flatMap(({ subcommands = [] }) =>
      subcommands.flatMap((group) => group.commands.map(({ name }) => name))
    )
    return [...found, ...(yield* Effect.forEach(names, (name) => helpOf([...path, name]))).flat()]
  })

const describe = ({ args = [], description, examples = [], flags, usage }: HelpDoc.HelpDoc): string => {
  const rows = [
    ...args.map((arg) => [arg.name, arg] as const),
    ...flags.map((flag) => [`--${flag.name}`, flag] as const)
  ]
    .map(([name, { description, type }]) => [
      `\`${name}${type === "boolean" ? "" : ` <${type}>`}\``,
      Option.getOrElse(description, () => "")
    ])
  const shown = examples.map(({ command, description = "" }) => `# ${description}\n${command}`).join("\n\n")
  return [
    `## ${usage.replace(/ [<[].*/, "")}\n`,
    `${description.replaceAll("\n", "\n\n")}\n`,
    rows.length === 0 ? "" : table(["flag or argument", "meaning"], rows),
    shown === "" ? "" : `\`\`\`sh\n${shown}\n\`\`\`\n`
  ].join("\n")
}

export const commandsPage = async (): Promise<string> =>
  `# Commands\n\n${(await Effect.runPromise(helpOf([]))).map(describe).join("\n")}`
