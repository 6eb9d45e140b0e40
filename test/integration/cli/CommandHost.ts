/**
 * Runs commands, one at a time, without a new process for each: `Program.ts` sends the arguments and the environment, and gets
 * what the process of the command would have written, and its exit code.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { rollcall } from "../../../src/cli/Rollcall.ts"
import { exitCode } from "../../../src/cli/terminal/Process.ts"
import type { Ended } from "./Program.ts"

export interface Request {
  readonly args: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly cwd: string
}

// a configuration file and its plugins import what they import in a process of the program
const { register } = await import(new URL("../../../bin/Imports.js", import.meta.url).href)
register()

process.on("message", async ({ args, cwd, environment }: Request) => {
  process.chdir(cwd)
  process.env = { ...environment }
  const written = { stdout: "", stderr: "" }
  for (const name of ["stdout", "stderr"] as const) {
    process[name].write = (chunk: string | Uint8Array) => {
      written[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString()
      return true
    }
  }
  const exit = await Effect.runPromiseExit(
    // the default is a copy of the first command's environment
    Effect.provideService(rollcall(args), ConfigProvider.ConfigProvider, ConfigProvider.fromEnv())
  )
  process.send?.({ code: exitCode(exit), ...written } satisfies Ended)
})
