/** `rollcall plugins …`: shows the plugins of the running process, switches them on and off, and replays events. */
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
const pathOf = (plugin: string, command = "") => `${root}/${encodeURIComponent(plugin)}${command}`

const plugin = Argument.String("plugin").pipe(
  Argument.withDescription("Name of the plugin, as `rollcall plugins list` shows it")
)

const optionalFlag = (name: string, description: string, metavar: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.withMetavar(metavar), Flag.optional)

export const plugins = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  const list = Command.make("list", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const list = yield* (yield* connect(config)).get(root, PluginList)
      yield* print(json ? JSON.stringify(list) : pluginListText(list))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("List all plugins and their handlers: lag, waiting deliveries and dead letters")
    )

  const show = Command.make("show", { plugin, json, config }, ({ config, json, plugin }) =>
    Effect.gen(function*() {
      const view = yield* (yield* connect(config)).get(pathOf(plugin), PluginView)
      yield* print(json ? JSON.stringify(view) : pluginText(view))
    }).pipe(runClientCommand)).pipe(Command.withDescription("Show one plugin, and the integrations in which it is on"))

  const switchCommand = (to: "on" | "off", description: string) =>
    Command.make(to, {
      plugin,
      integration: optionalFlag("integration", "Only in this integration", "id"),
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
          description: "Only in one integration"
        }])
      )

  const writesCommand = (name: string, command: "stop" | "resume", description: string) =>
    Command.make(name, { json, config }, ({ config, json }) =>
      Effect.gen(function*() {
        const list = yield* (yield* connect(config)).post(`${root}/writes/${command}`, {}, PluginList)
        const text = list.writes === "on"
          ? "the writes of all plugins are resumed"
          : "the writes of all plugins are stopped"
        yield* print(json ? JSON.stringify(list) : text)
      }).pipe(runClientCommand)).pipe(Command.withDescription(description))

  const replay = Command.make("replay", {
    plugin,
    handler: Argument.String("handler").pipe(
      Argument.withDescription("Name of the handler; its trigger, unless the plugin names it")
    ),
    from: optionalFlag(
      "from",
      "Position of the first event, or a time (default: the oldest retained event)",
      "position|instant"
    ),
    to: optionalFlag(
      "to",
      "Position of the last event, or the time before which events are replayed (default: now)",
      "position|instant"
    ),
    integration: optionalFlag("integration", "Only events of this integration", "id"),
    dryRun: Flag.Boolean("dry-run").pipe(
      Flag.withDescription("Run the handler without writing, and show what it would write or how it would fail"),
      Flag.withDefault(false)
    ),
    fresh: Flag.Boolean("fresh").pipe(
      Flag.withDescription(
        "Use a new journal: steps that are already done for these events are done again, except those done once " +
          "per record"
      ),
      Flag.withDefault(false)
    ),
    limit: Flag.Int("limit").pipe(
      Flag.withDescription("With --dry-run: maximum number of deliveries to try (default: 100)"),
      Flag.withDefault(100)
    ),
    json,
    config
  }, ({ config, dryRun, fresh, from, handler, integration, json, limit, plugin, to }) =>
    Effect.gen(function*() {
      const optional = Object.entries({ from, to, integration })
        .flatMap(([name, value]) => Option.isSome(value) ? [[name, value.value]] : [])
      const body = { handler, dryRun, fresh, ...(dryRun ? { limit } : {}), ...Object.fromEntries(optional) }
      const replayed = yield* (yield* connect(config)).post(pathOf(plugin, "/replay"), body, ReplayView)
      yield* print(json ? JSON.stringify(replayed) : replayText(replayed))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Deliver a range of the event log to one handler again, or show what that would do"),
      Command.withExamples([
        {
          command:
            "rollcall plugins replay stage-tags ats.application.stage_changed --from 2026-03-01T00:00:00Z --dry-run",
          description: "Show what the replay would write"
        },
        {
          command: "rollcall plugins replay stage-tags ats.application.stage_changed --from 2026-03-01T00:00:00Z",
          description: "Replay; steps that are already done are not repeated"
        }
      ])
    )

  return Command.make("plugins").pipe(
    Command.withDescription(
      "Create a plugin; list the plugins of the running process, switch them on and off, and replay events"
    ),
    Command.withSubcommands([
      newPlugin,
      list,
      show,
      switchCommand("on", "Switch a plugin on; it continues where it stopped"),
      switchCommand("off", "Switch a plugin off, everywhere or in one integration; its deliveries wait, none is lost"),
      writesCommand(
        "stop-writes",
        "stop",
        "Stop the writes of all plugins to the API at once; deliveries that write wait"
      ),
      writesCommand("resume-writes", "resume", "Resume the writes of all plugins"),
      replay
    ])
  )
}
