/** The commands `status` and `tail`, which call the running process, and the flags that several commands share. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import type { HttpClient } from "effect/http/HttpClient"
import type * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { cursorParameter, isCursorParameter } from "../api/Lists.ts"
import { PluginList } from "../http/plugins/PluginApi.ts"
import * as ApiClient from "./ApiClient.ts"
import { awaitShutdownSignal, withTerminalErrors } from "./Process.ts"
import { pluginListText } from "./terminal/PluginText.ts"
import { eventLine, holdTable, streamTable } from "./terminal/Terminal.ts"

export const json = Flag.Boolean("json").pipe(Flag.withDescription("Print JSON"), Flag.withDefault(false))
export const print = (text: string): Effect.Effect<void> => Effect.sync(() => process.stdout.write(`${text}\n`))

/** The path of the file that configures the running process. */
export type ConfigFlag = Flag.Flag<Option.Option<string>>
/** Creates a client of the running process's operating API; fails if the configuration does not give its address. */
export type ConnectClient<E> = (config: Option.Option<string>) => Effect.Effect<ApiClient.ApiClient, E, HttpClient>

/** Runs a command that calls the running process. */
export const runClientCommand = <A, E extends Error, R>(command: Effect.Effect<A, E, R>) =>
  command.pipe(Effect.provide(NodeHttpClient.layerNodeHttp), withTerminalErrors)

export const status = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) =>
  Command.make("status", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const { get, holds, ready, streams } = yield* connect(config)
      const plugins = get("/v1/plugins", PluginList)
      const [checks, views, listed, delivered] = yield* Effect.all([ready, streams, holds, plugins])
      const open = listed.filter(({ state }) => state === "open")
      if (json) return yield* print(JSON.stringify({ checks, streams: views, holds: open, plugins: delivered.items }))
      const failed = checks.filter((check) => !check.ok)
      yield* print(`${failed.length === 0 ? "ready" : "not ready"}, ${views.length} streams`)
      for (const { reason } of failed) yield* print(`  ${reason}`)
      if (views.length > 0) yield* print(`\n${streamTable(views)}`)
      if (open.length > 0) yield* print(`\nwaiting for a decision:\n${holdTable(open)}`)
      if (delivered.items.length > 0) yield* print(`\n${pluginListText(delivered)}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Show the health of the running process: its streams with condition, records and freshness, open holds, " +
          "and plugins"
      )
    )

export const tail = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) =>
  Command.make("tail", {
    json,
    config,
    after: Flag.String("after").pipe(
      Flag.withDescription(
        "Start after this position of the event log (default: latest, which prints new events only)"
      ),
      Flag.withMetavar("position"),
      Flag.withDefault("latest")
    )
  }, ({ after, config, json }) =>
    Effect.gen(function*() {
      const { follow } = yield* connect(config)
      const show = (text: string) => print(json ? text : eventLine(ApiClient.parseEvent(text).data))
      yield* Effect.raceFirst(Stream.runForEach(follow(after), show), awaitShutdownSignal)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Print the events of the running process as they happen"),
      Command.withExamples([{
        command: "rollcall tail --json | jq .data.kind",
        description: "Print JSON for another program"
      }])
    )

// ---- flags of other commands --------------------------------------------------------------------------------------

export const seed = Flag.Int("seed").pipe(
  Flag.withDescription("Seed of the simulated world; the same seed gives the same world (default: 1)"),
  Flag.withDefault(1)
)
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

export const sandboxFlags = {
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
