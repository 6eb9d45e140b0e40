/** `rollcall doctor`: runs the checks of `Doctor.ts`, which is imported only by this command. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { sourceLayer } from "../../app/Composition.ts"
import * as Config from "../../config/Config.ts"
import { loadRawConfig } from "../../config/RawConfig.ts"
import { findUnknownIntegrations } from "../../config/UnknownIntegrations.ts"
import { findUnknownRedactions } from "../../config/UnknownRedactions.ts"
import { findUnknownVariables } from "../../config/UnknownVariables.ts"
import { CurrentProxies } from "../../network/Proxies.ts"
import { config, json } from "../Flags.ts"
import { withTerminalErrors } from "../Process.ts"

/** Short, because an operator waits for the result. */
const doctorTimeouts = { retryBase: "20 millis", timeout: "5 seconds" } as const

export const doctor = Command.make("doctor", { config, json }, ({ config, json }) =>
  Effect.gen(function*() {
    const Doctor = yield* Effect.promise(() => import("./Doctor.ts"))
    const input = yield* loadRawConfig(config)
    const unknown = yield* findUnknownVariables(input, process.env)
    const checked = Config.check(input)
    if (Result.isFailure(checked)) return yield* Doctor.reportInvalidConfig(checked.failure.faults, unknown, { json })
    const settings = checked.success
    const ineffective = [
      ...unknown,
      ...settings.telemetryFaults,
      ...findUnknownRedactions(input, settings.models),
      ...findUnknownIntegrations(settings)
    ]
    yield* Doctor.runChecks(settings, input, ineffective, { json }).pipe(
      Effect.provide(sourceLayer({ ...settings, ...doctorTimeouts })),
      Effect.provideService(CurrentProxies, settings.proxies)
    )
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription(
      "Check configuration, accounts, integrations, plugins, store, Kafka and clock, and show how to fix each problem"
    )
  )
