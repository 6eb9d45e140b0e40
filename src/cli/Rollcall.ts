/**
 * The command line: joins the commands.
 *
 * Gotchas
 * - Modules that only some commands need are imported by those commands, because importing costs start-up time.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { variablesHelp } from "../config/Variables.ts"
import { version } from "../http/contract/Version.ts"
import { deadLetters } from "./DeadLettersCommand.ts"
import { demo } from "./demo/DemoCommand.ts"
import { doctor } from "./doctor/DoctorCommand.ts"
import { exportRecords } from "./ExportCommand.ts"
import { fleet } from "./FleetCommand.ts"
import { forget } from "./ForgetCommand.ts"
import { holds } from "./HoldsCommand.ts"
import { init } from "./InitCommand.ts"
import { integrations } from "./IntegrationsCommand.ts"
import { lists } from "./lists/ListsCommand.ts"
import { plugins } from "./PluginsCommand.ts"
import { sandbox } from "./sandbox/SandboxCommand.ts"
import { schema } from "./SchemaCommand.ts"
import { sessions } from "./SessionsCommand.ts"
import { start } from "./StartCommand.ts"
import { status } from "./StatusCommand.ts"
import { store } from "./StoreCommand.ts"
import { streams } from "./StreamsCommand.ts"
import { tail } from "./TailCommand.ts"

export const commands = Command.make("rollcall").pipe(
  Command.withDescription(
    "A change feed for HR, recruiting, assessment and learning APIs that can only be polled.\n" +
      "Exit codes: 0 success, an end by a signal, or a closed pipe; 1 the command failed, was refused or found something wrong; 2 wrong usage; 3 another process works on the SQLite store"
  ),
  Command.withSubcommands([
    start,
    demo,
    sandbox,
    init,
    doctor,
    store,
    schema,
    lists,
    status,
    tail,
    exportRecords,
    streams,
    holds,
    integrations,
    plugins,
    deadLetters,
    forget,
    sessions,
    fleet
  ])
)

/**
 * Shows wrong usage, with the help of its command, on standard error: a program may read standard output. The help of `start` ends with
 * the environment variables.
 */
const presenter: CliOutput.Presenter = {
  present: (event) => {
    const shown = CliOutput.defaultPresenter.present(event)
    if (event._tag === "Help" && event.commandPath.at(-1) === "start") {
      return Effect.andThen(shown, Console.log(`\n${variablesHelp()}`))
    }
    return event._tag === "InvalidInvocation"
      ? Effect.provideService(shown, Console.Console, { ...console, log: console.error })
      : shown
  }
}

/** Runs the command that these arguments name. */
export const rollcall = (args: ReadonlyArray<string>) =>
  Command.runWith(commands, { version })(args).pipe(
    Effect.provide(NodeServices.layer),
    Effect.provide(CliOutput.layerPresenter(presenter)),
    Effect.provide(CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }))
  )
