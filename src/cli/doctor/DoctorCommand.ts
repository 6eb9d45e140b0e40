/** `rollcall doctor`: runs the checks of `Doctor.ts`, which is imported only by this command. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { loadRawConfig } from "../../config/RawConfig.ts"
import { config, json } from "../terminal/Flags.ts"
import { withTerminalErrors } from "../terminal/Process.ts"

export const doctor = Command.make("doctor", { config, json }, ({ config, json }) =>
  Effect.gen(function*() {
    const { examine } = yield* Effect.promise(() => import("./Doctor.ts"))
    yield* examine(yield* loadRawConfig(config), json)
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription(
      "Check configuration, accounts, integrations, plugins, store, Kafka and clock, and show how to fix each problem"
    )
  )
