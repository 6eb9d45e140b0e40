/** Configurations in tests: what a process gets with these variables, and with a file that exports this value. */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Config from "../../../src/config/Config.ts"
import { loadEnvironment, type RawConfig } from "../../../src/config/RawConfig.ts"

type Variables = Readonly<Record<string, string>>

export const fileName = "rollcall.config.ts"

/** The configuration before it is checked. */
export const loaded = (variables: Variables, file?: unknown): Effect.Effect<RawConfig> =>
  Effect.map(
    loadEnvironment,
    (raw) => file === undefined ? raw : { ...raw, file: { name: fileName, value: file } }
  ).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables)))

/** Without these variables, and without an account in the file, every configuration has faults. */
const account: Variables = { ROLLCALL_API_URL: "https://api.example.com/v1", ROLLCALL_API_KEY: "s3cret-key" }

/** The configuration with an account of the environment. */
export const complete = (variables: Variables = {}, file?: unknown): Effect.Effect<RawConfig> =>
  loaded({ ...account, ...variables }, file)

export const faultsIn = (raw: RawConfig) => {
  const result = Config.check(raw)
  return Result.isFailure(result) ? result.failure.faults : []
}

export const settingsOf = (...input: Parameters<typeof complete>): Effect.Effect<Config.Settings> =>
  Effect.map(complete(...input), (raw) => Result.getOrThrow(Config.check(raw)))

export const faultsOf = (...input: Parameters<typeof complete>) => Effect.map(complete(...input), faultsIn)
