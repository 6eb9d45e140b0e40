/** `rollcall plugins …`: creates and runs a plugin; shows the plugins of the running process, switches them on and off, and replays events. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { ApiClientError } from "./client/ApiClient.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { sendAgain, verifySent } from "./client/WaitedWork.ts"
import { checkWaitFlags, waitFlags, withElapsed } from "./client/Waiting.ts"
import { dev } from "./dev/DevCommand.ts"
import { newPlugin } from "./NewPluginCommand.ts"
import { given, nameArgument, switchFlag, textFlag, withFallback, yes } from "./terminal/Flags.ts"
import { pluginListText, pluginText, replayText } from "./terminal/PluginText.ts"
import { CommandError, confirm, progressPrinter, refuse } from "./terminal/Process.ts"

const plugin = nameArgument("plugin", "Name of the plugin, as `rollcall plugins list` shows it")

const list = clientCommand("list", {
  description: "List all plugins and their handlers: lag, waiting deliveries and dead letters",
  flags: {},
  request: (client) => client.plugins.list(),
  text: pluginListText
})

const show = clientCommand("show", {
  description: "Show one plugin, and the integrations in which it is on",
  flags: { plugin },
  request: (client, params) => client.plugins.show({ params }),
  text: pluginText
})

const switchCommand = (to: "on" | "off", description: string) =>
  clientCommand(to, {
    description,
    examples: [{
      command: `rollcall plugins ${to} stage-tags --integration greenhouse:acme`,
      description: "Only in one integration"
    }],
    flags: { plugin, where: { integration: textFlag("integration", "Only in this integration", "id") } },
    request: (client, { plugin, where }) => client.plugins[to]({ params: { plugin }, query: given(where) }),
    text: pluginText
  })

const writesCommand = (name: string, command: "stop" | "resume", description: string) =>
  clientCommand(name, {
    description,
    flags: {},
    request: (client) => client.plugins[command](),
    text: ({ writes }) => `the writes of all plugins are ${writes === "on" ? "resumed" : "stopped"}`
  })

const tryCommand = clientCommand("try", {
  description: "Try one delivery of a handler whose circuit is open now; if it succeeds, the others follow",
  examples: [{
    command: "rollcall plugins try webhook ats.application.hired",
    description: "After the receiver of the webhook was repaired"
  }],
  flags: { plugin, handler: Argument.String("handler").pipe(Argument.withDescription("Name of the handler")) },
  request: (client, { handler, plugin }) => client.plugins.try({ params: { plugin }, query: { handler } }),
  text: pluginText
})

/** How to continue after a replay that made only some of its deliveries. */
const continueReplay = (plugin: string, fresh: boolean): string =>
  fresh
    ? `Those are delivered. \`rollcall plugins show ${plugin}\` shows what waits: a second replay with --fresh would do their steps again.`
    : "Those are delivered. Run the command again: it makes all of the deliveries, and steps that are done are not repeated."

/** Explains that the connection ended while deliveries were made, and how to continue. */
const explainInterruptedReplay = (plugin: string, fresh: boolean) => (error: Error) =>
  !(error instanceof ApiClientError) || error.reason !== "interrupted" ? error : new CommandError({
    message: `${error.message}; some of the deliveries may have been made`,
    hint: continueReplay(plugin, fresh)
  })

const replay = clientCommand("replay", {
  description: "Deliver a range of the event log to one handler again, or show what that would do",
  examples: [
    {
      command: "rollcall plugins replay stage-tags ats.application.stage_changed --from 2026-03-01T00:00:00Z --dry-run",
      description: "Show what the replay would write"
    },
    {
      command: "rollcall plugins replay stage-tags ats.application.stage_changed --from 2026-03-01T00:00:00Z --wait",
      description: "Replay, and show the progress; steps that are already done are not repeated"
    }
  ],
  flags: {
    plugin,
    handler: Argument.String("handler").pipe(
      Argument.withDescription("Name of the handler; its trigger, unless the plugin names it")
    ),
    range: {
      from: textFlag(
        "from",
        "Position of the first event, or a time (default: the oldest retained event)",
        "position|instant"
      ),
      to: textFlag(
        "to",
        "Position of the last event, or the time before which events are replayed (default: now)",
        "position|instant"
      ),
      integration: textFlag("integration", "Only events of this integration", "id")
    },
    dryRun: switchFlag(
      "dry-run",
      "Run the handler without writing, and show what it would write or how it would fail; requests that a plugin sends " +
        "without its capabilities, such as with Node's own fetch, and its own database or files, cannot be blocked"
    ),
    fresh: switchFlag(
      "fresh",
      "Use a new journal: steps that are already done for these events are done again, except those done once per " +
        "record; asks for confirmation"
    ),
    limit: withFallback(Flag.Int("limit"), "With --dry-run: maximum number of deliveries to try", 100),
    wait: waitFlags,
    yes
  },
  request: Effect.fnUntraced(function*(client, { dryRun, fresh, handler, limit, plugin, range, wait, yes }, { json }) {
    yield* checkWaitFlags(wait)
    if (dryRun && wait.wait) {
      return yield* refuse(
        "--wait has no effect with --dry-run",
        "Leave out --wait: a dry run returns when it is done."
      )
    }
    if (fresh && !dryRun) {
      yield* confirm({
        yes,
        json,
        shown: "",
        question: `Deliver these events to ${plugin}/${handler} again, without their journal?`,
        hint: "Add --dry-run to see what would be written again. Pass --yes to replay."
      })
    }
    const payload = { handler, dryRun, fresh, ...(dryRun && { limit }), ...given(range) }
    const request = withElapsed(client.plugins.replay({ params: { plugin }, payload }), progressPrinter(json)).pipe(
      Effect.mapError(dryRun ? (error: Error) => error : explainInterruptedReplay(plugin, fresh))
    )
    const hint = `Some of the deliveries may have been made. ${continueReplay(plugin, fresh)}`
    return yield* sendAgain(client, request, { kind: "replay", hint, wait, json })
  }),
  text: replayText,
  verify: ({ progress }) => verifySent(progress, "failed")
})

export const plugins = Command.make("plugins").pipe(
  Command.withDescription(
    "Create a plugin and run it while you write it; list the plugins of the running process, switch them on and off, and replay events"
  ),
  Command.withSubcommands([
    newPlugin,
    dev,
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
    tryCommand,
    replay
  ])
)
