/** `rollcall sandbox`: serves a simulated unified API. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { cursorParameter, isCursorParameter } from "../../api/Lists.ts"
import { shellWord } from "../../http/overview/ShellWord.ts"
import { json, seed, withFallback } from "../terminal/Flags.ts"
import { awaitShutdownSignal, print, withTerminalErrors } from "../terminal/Process.ts"

const integerFlag = (name: string, least: number, most = Infinity) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value >= least && value <= most,
      (value) =>
        `Expected a number ${most === Infinity ? `of at least ${least}` : `from ${least} to ${most}`}, got ${value}`
    )
  )

const flags = {
  port: withFallback(integerFlag("port", 0, 65_535), "Port to listen on; 0 for any free port", 4010),
  host: withFallback(
    Flag.String("host"),
    "Address to listen on; use 0.0.0.0 in a container. Everyone who can reach it can change its data",
    "127.0.0.1"
  ),
  seed,
  speed: withFallback(
    Flag.Finite("speed").pipe(
      Flag.filter((value) => value >= 0, (value) => `Expected a number of at least 0, got ${value}`)
    ),
    "Speed of the simulated world; 0 freezes it, but writes still work",
    60
  ),
  integrations: withFallback(integerFlag("integrations", 1), "Number of integrations", 2),
  records: withFallback(
    integerFlag("records", 0),
    "Number of applications, and of payslips, per integration",
    500
  ),
  faults: withFallback(Flag.Literals("faults", ["none", "light", "heavy"]), "How many requests fail", "none"),
  key: withFallback(Flag.String("key"), "The API key that the sandbox accepts", "sandbox"),
  cursorParameter: withFallback(
    Flag.String("cursor-parameter").pipe(
      Flag.filter(
        isCursorParameter,
        (name) => `Expected letters and digits, and not the name of another list parameter, got ${name}`
      )
    ),
    "Name of the query parameter that carries the cursor of lists",
    cursorParameter
  ),
  json
}

export const sandbox = Command.make("sandbox", flags, ({ json, ...options }) =>
  Effect.gen(function*() {
    const { serve } = yield* Effect.promise(() => import("../../sandbox/Sandbox.ts"))
    const { ids, integrations, key, url } = yield* serve(options)
    const variables = {
      ROLLCALL_API_URL: url,
      ROLLCALL_API_KEY: key,
      ROLLCALL_INTEGRATIONS: integrations.join(","),
      ...options.cursorParameter !== cursorParameter && { ROLLCALL_CURSOR_PARAMETER: options.cursorParameter }
    }
    yield* print(
      json
        ? JSON.stringify({ url, key, integrations, ids })
        : Object.entries(variables).map(([name, value]) => `export ${name}=${shellWord(value)}`).join("\n")
    )
    yield* awaitShutdownSignal
  }).pipe(Effect.scoped, withTerminalErrors)).pipe(
    Command.withDescription(
      "Serve a simulated unified API until interrupted, to try Rollcall out or to test with. Prints the variables that make Rollcall read it"
    )
  )
