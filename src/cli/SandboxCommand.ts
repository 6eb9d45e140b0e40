/** `rollcall sandbox`: serves a simulated unified API. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { cursorParameter, isCursorParameter } from "../api/Lists.ts"
import { json, seed } from "./Flags.ts"
import { awaitShutdownSignal, print, withTerminalErrors } from "./Process.ts"

const integerFlag = (name: string, description: string, least: number, fallback: number, most = Infinity) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value >= least && value <= most,
      (value) =>
        `Expected a number ${most === Infinity ? `of at least ${least}` : `from ${least} to ${most}`}, got ${value}`
    ),
    Flag.withDescription(`${description} (default: ${fallback})`),
    Flag.withDefault(fallback)
  )

const flags = {
  port: integerFlag("port", "Port to listen on; 0 for any free port", 0, 4010, 65_535),
  host: Flag.String("host").pipe(
    Flag.withDescription(
      "Address to listen on; use 0.0.0.0 in a container. Everyone who can reach it can change its data (default: " +
        "127.0.0.1)"
    ),
    Flag.withDefault("127.0.0.1")
  ),
  seed,
  speed: Flag.Finite("speed").pipe(
    Flag.withDescription("Speed of the simulated world; 0 freezes it, but writes still work (default: 60)"),
    Flag.filter((value) => value >= 0, (value) => `Expected a number of at least 0, got ${value}`),
    Flag.withDefault(60)
  ),
  integrations: integerFlag("integrations", "Number of integrations", 1, 2),
  records: integerFlag("records", "Number of applications, and of payslips, per integration", 0, 500),
  faults: Flag.Literals("faults", ["none", "light", "heavy"]).pipe(
    Flag.withDescription("How often requests fail (default: none)"),
    Flag.withDefault("none")
  ),
  key: Flag.String("key").pipe(
    Flag.withDescription("The API key that the sandbox accepts (default: sandbox)"),
    Flag.withDefault("sandbox")
  ),
  cursorParameter: Flag.String("cursor-parameter").pipe(
    Flag.withDescription("Name of the query parameter that carries the cursor of lists (default: cursor)"),
    Flag.filter(
      isCursorParameter,
      (name) => `Expected letters and digits, and not the name of another list parameter, got ${name}`
    ),
    Flag.withDefault(cursorParameter)
  ),
  json
}

export const sandbox = Command.make("sandbox", flags, ({ json, ...options }) =>
  Effect.gen(function*() {
    const { serve } = yield* Effect.promise(() => import("../sandbox/Sandbox.ts"))
    const { ids, integrations, key, url } = yield* serve(options)
    yield* print(
      json
        ? JSON.stringify({ url, key, integrations, ids })
        : `url           ${url}\nkey           ${key}\nintegrations  ${integrations.join(",")}`
    )
    yield* awaitShutdownSignal
  }).pipe(Effect.scoped, withTerminalErrors)).pipe(
    Command.withDescription("Serve a simulated unified API until interrupted, to try Rollcall out or to test with")
  )
