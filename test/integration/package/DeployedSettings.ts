/** The settings that a deployment gives to Rollcall: its variables are known, and their values are valid. */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert } from "vitest"
import * as Config from "../../../src/config/Config.ts"
import { loadEnvironment } from "../../../src/config/RawConfig.ts"
import { isSecretVariable, variableNames } from "../../../src/config/Variables.ts"

export const root = fileURLToPath(new URL("../../..", import.meta.url))

/** The instructions of the Dockerfile, with their arguments; continued lines are joined. */
export const instructions = readFileSync(`${root}deploy/Dockerfile`, "utf8").replaceAll(/^#.*\n/gm, "")
  .replaceAll(/\\\n\s*/g, " ").split("\n").filter((line) => line !== "")
  .map((line): [string, string] => [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)])
export const argumentsOf = (instruction: string): ReadonlyArray<string> =>
  instructions.filter(([name]) => name === instruction).map(([, text]) => text)

/** The variables that the image sets itself. */
export const imageVariables: Readonly<Record<string, string>> = Object.fromEntries(
  argumentsOf("ENV").flatMap((text) =>
    Array.from(text.matchAll(/(\w+)=(\S+)/g), ([, name = "", value = ""]) => [name, value] as const)
  )
)

const known = new Set<string>([
  ...variableNames,
  ...variableNames.filter(isSecretVariable).map((name) => `${name}_FILE`),
  "NODE_ENV",
  "NODE_EXTRA_CA_CERTS"
])

/** What `start` uses with these variables. */
export const acceptedSettings = (variables: Readonly<Record<string, string>>): Effect.Effect<Config.Settings> =>
  Effect.gen(function*() {
    assert.deepStrictEqual(Object.keys(variables).filter((name) => !known.has(name)), [])
    return Result.getOrThrow(Config.check(yield* loadEnvironment))
  }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables)))
