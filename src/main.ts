/**
 * The command line: joins the commands and runs one.
 *
 * Gotchas
 * - Modules that only some commands need are imported by those commands, because importing costs start-up time.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as CliConfig from "effect/cli/CliConfig"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import { deadLetters } from "./cli/DeadLettersCommand.ts"
import { demo } from "./cli/demo/DemoCommand.ts"
import { doctor } from "./cli/doctor/DoctorCommand.ts"
import { forget } from "./cli/ForgetCommand.ts"
import { holds } from "./cli/HoldsCommand.ts"
import { integrations } from "./cli/IntegrationsCommand.ts"
import { plugins } from "./cli/PluginsCommand.ts"
import { runMain } from "./cli/Process.ts"
import { sandbox } from "./cli/SandboxCommand.ts"
import { schema } from "./cli/SchemaCommand.ts"
import { sessions } from "./cli/SessionsCommand.ts"
import { start } from "./cli/StartCommand.ts"
import { status } from "./cli/StatusCommand.ts"
import { store } from "./cli/StoreCommand.ts"
import { streams } from "./cli/StreamsCommand.ts"
import { tail } from "./cli/TailCommand.ts"
import { version } from "./http/Version.ts"

const rollcall = Command.make("rollcall").pipe(
  Command.withDescription("A change feed for HR, recruiting, assessment and learning APIs that can only be polled"),
  Command.withSubcommands([
    start,
    demo,
    sandbox,
    doctor,
    store,
    schema,
    status,
    tail,
    streams,
    holds,
    integrations,
    plugins,
    deadLetters,
    forget,
    sessions
  ])
)

await runMain(
  Command.run(rollcall, { version }).pipe(
    Effect.provide(NodeServices.layer),
    Effect.provide(CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }))
  )
)
