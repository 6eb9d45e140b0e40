/** The commands that ask a running process, `status` and `tail`, and the flags of those that need adapters. */
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

export const json = Flag.Boolean("json").pipe(Flag.withDescription("Print JSON for programs"), Flag.withDefault(false))
export const print = (text: string): Effect.Effect<void> => Effect.sync(() => process.stdout.write(`${text}\n`))

/** Names the file that configures the running process. */
export type ConfigFlag = Flag.Flag<Option.Option<string>>
/** The operating API of the running process, or why it cannot be said where that is. */
export type ConnectClient<E> = (config: Option.Option<string>) => Effect.Effect<ApiClient.ApiClient, E, HttpClient>

/** A command that asks a running process. */
export const runClientCommand = <A, E extends Error, R>(command: Effect.Effect<A, E, R>) =>
  command.pipe(Effect.provide(NodeHttpClient.layerNodeHttp), withTerminalErrors)

export const status = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) =>
  Command.make("status", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const { get, holds, ready, streams } = yield* connect(config)
      const plugins = get("/v1/plugins", PluginList)
      const [checks, views, undecided, delivered] = yield* Effect.all([ready, streams, holds, plugins])
      const open = undecided.filter(({ state }) => state === "open")
      if (json) return yield* print(JSON.stringify({ checks, streams: views, holds: open, plugins: delivered.items }))
      const missing = checks.filter((check) => !check.ok)
      yield* print(`${missing.length === 0 ? "ready" : "not ready"}, ${views.length} streams`)
      for (const { reason } of missing) yield* print(`  ${reason}`)
      if (views.length > 0) yield* print(`\n${streamTable(views)}`)
      if (open.length > 0) yield* print(`\nwaiting for a decision:\n${holdTable(open)}`)
      if (delivered.items.length > 0) yield* print(`\n${pluginListText(delivered)}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Show the streams of the running process: condition, records, freshness; and its plugins")
    )

export const tail = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) =>
  Command.make("tail", {
    json,
    config,
    after: Flag.String("after").pipe(
      Flag.withDescription("Begin after this position of the event log instead of with the next event"),
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
      Command.withExamples([{ command: "rollcall tail --json | jq .data.kind", description: "For programs" }])
    )

// ---- flags of other commands --------------------------------------------------------------------------------------

export const seed = Flag.Int("seed").pipe(
  Flag.withDescription("The same seed gives the same world (default: 1)"),
  Flag.withDefault(1)
)
const integerFlag = (name: string, description: string, least: number, otherwise: number, most = Infinity) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value >= least && value <= most,
      (value) => `Expected a number from ${least} ${most === Infinity ? "on" : `to ${most}`}, got ${value}`
    ),
    Flag.withDescription(`${description} (default: ${otherwise})`),
    Flag.withDefault(otherwise)
  )

export const sandboxFlags = {
  port: integerFlag("port", "Port; 0 for any free one", 0, 4010, 65_535),
  host: Flag.String("host").pipe(
    Flag.withDescription(
      "Address to listen on; 0.0.0.0, in a container, for all. Whoever reaches it may change its data (default: 127.0.0.1)"
    ),
    Flag.withDefault("127.0.0.1")
  ),
  seed,
  speed: Flag.Finite("speed").pipe(
    Flag.withDescription("How much happens; 0 freezes the world, writes still work (default: 60)"),
    Flag.filter((value) => value >= 0, (value) => `Expected a number from 0 on, got ${value}`),
    Flag.withDefault(60)
  ),
  integrations: integerFlag("integrations", "How many connected systems", 1, 2),
  records: integerFlag("records", "Applications, and payslips, per integration", 0, 500),
  faults: Flag.Literals("faults", ["none", "light", "heavy"]).pipe(
    Flag.withDescription("How often answers fail (default: none)"),
    Flag.withDefault("none")
  ),
  key: Flag.String("key").pipe(
    Flag.withDescription("The API key it accepts (default: sandbox)"),
    Flag.withDefault("sandbox")
  ),
  cursorParameter: Flag.String("cursor-parameter").pipe(
    Flag.withDescription("Query name of the cursor of lists (default: cursor)"),
    Flag.filter(
      isCursorParameter,
      (name) => `Expected letters and digits, and no other parameter of the lists, got ${name}`
    ),
    Flag.withDefault(cursorParameter)
  ),
  json
}
