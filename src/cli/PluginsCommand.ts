/** `rollcall plugins …`: how the plugins of the running process are, their switches, and delivering events again. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { PluginList, PluginView, ReplayView } from "../http/plugins/PluginApi.ts"
import { type ConfigFlag, type ConnectClient, json, print, runClientCommand } from "./Flags.ts"
import { newPlugin } from "./NewPluginCommand.ts"
import { pluginListText, pluginText, replayText } from "./terminal/PluginText.ts"

const root = "/v1/plugins"
const pathOf = (plugin: string, act = "") => `${root}/${encodeURIComponent(plugin)}${act}`

const plugin = Argument.String("plugin").pipe(Argument.withDescription("Its name, as `rollcall plugins list` shows it"))

const optionalFlag = (name: string, description: string, metavar: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.withMetavar(metavar), Flag.optional)

export const plugins = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  const list = Command.make("list", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const list = yield* (yield* connect(config)).get(root, PluginList)
      yield* print(json ? JSON.stringify(list) : pluginListText(list))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Show every plugin with its handlers: how far behind, what waits, what is dead")
    )

  const show = Command.make("show", { plugin, json, config }, ({ config, json, plugin }) =>
    Effect.gen(function*() {
      const view = yield* (yield* connect(config)).get(pathOf(plugin), PluginView)
      yield* print(json ? JSON.stringify(view) : pluginText(view))
    }).pipe(runClientCommand)).pipe(Command.withDescription("Show one plugin, and in which integrations it is on"))

  const switchCommand = (to: "on" | "off", description: string) =>
    Command.make(to, {
      plugin,
      integration: optionalFlag("integration", "Only in this one", "id"),
      json,
      config
    }, ({ config, integration, json, plugin }) =>
      Effect.gen(function*() {
        const where = Option.match(integration, {
          onNone: () => "",
          onSome: (id) => `?integration=${encodeURIComponent(id)}`
        })
        const view = yield* (yield* connect(config)).post(pathOf(plugin, `/${to}${where}`), {}, PluginView)
        yield* print(json ? JSON.stringify(view) : pluginText(view))
      }).pipe(runClientCommand)).pipe(
        Command.withDescription(description),
        Command.withExamples([{
          command: `rollcall plugins ${to} stage-tags --integration greenhouse:acme`,
          description: "For one customer"
        }])
      )

  const writesCommand = (name: string, act: "stop" | "resume", description: string) =>
    Command.make(name, { json, config }, ({ config, json }) =>
      Effect.gen(function*() {
        const list = yield* (yield* connect(config)).post(`${root}/writes/${act}`, {}, PluginList)
        const said = list.writes === "on"
          ? "plugins may write to the API again"
          : "no plugin writes to the API from now on"
        yield* print(json ? JSON.stringify(list) : said)
      }).pipe(runClientCommand)).pipe(Command.withDescription(description))

  const replay = Command.make("replay", {
    plugin,
    handler: Argument.String("handler").pipe(Argument.withDescription("Its name; the trigger unless it has its own")),
    from: optionalFlag(
      "from",
      "Position of the first event, or a time; else the oldest that is kept",
      "position|instant"
    ),
    to: optionalFlag("to", "Position of the last event, or the time before which it is; else now", "position|instant"),
    integration: optionalFlag("integration", "Only events of this one", "id"),
    dryRun: Flag.Boolean("dry-run").pipe(
      Flag.withDescription("Write nothing: run the handler now and say what it would write, or how it would fail"),
      Flag.withDefault(false)
    ),
    fresh: Flag.Boolean("fresh").pipe(
      Flag.withDescription(
        "Forget what was journaled for these events: it is done again; what is done once per record for ever is not"
      ),
      Flag.withDefault(false)
    ),
    limit: Flag.Int("limit").pipe(
      Flag.withDescription("Of a dry run: try at most so many deliveries (default: 100)"),
      Flag.withDefault(100)
    ),
    json,
    config
  }, ({ config, dryRun, fresh, from, handler, integration, json, limit, plugin, to }) =>
    Effect.gen(function*() {
      const given = { from, to, integration }
      const said = Object.entries(given).flatMap(([name, value]) => Option.isSome(value) ? [[name, value.value]] : [])
      const body = { handler, dryRun, fresh, ...(dryRun ? { limit } : {}), ...Object.fromEntries(said) }
      const replayed = yield* (yield* connect(config)).post(pathOf(plugin, "/replay"), body, ReplayView)
      yield* print(json ? JSON.stringify(replayed) : replayText(replayed))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Deliver a stretch of the event log to one handler again, or see what that would do"),
      Command.withExamples([
        {
          command:
            "rollcall plugins replay stage-tags ats.application.stage_changed --from 2026-03-01T00:00:00Z --dry-run",
          description: "See first"
        },
        {
          command: "rollcall plugins replay stage-tags ats.application.stage_changed --from 2026-03-01T00:00:00Z",
          description: "Then do it; what was journaled is not done twice"
        }
      ])
    )

  return Command.make("plugins").pipe(
    Command.withDescription("Begin a plugin; see those of the running process, switch them, and deliver events again"),
    Command.withSubcommands([
      newPlugin,
      list,
      show,
      switchCommand("on", "Let a plugin go on where it stopped"),
      switchCommand("off", "Let a plugin's deliveries wait, everywhere or in one integration; nothing is lost"),
      writesCommand("stop-writes", "stop", "Keep every plugin from writing to the API, at once; what wants to waits"),
      writesCommand("resume-writes", "resume", "Let plugins write again"),
      replay
    ])
  )
}
