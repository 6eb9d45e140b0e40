/** `rollcall status`: the health of the running process. */
import * as Effect from "effect/Effect"
import { oneLine } from "../telemetry/TerminalText.ts"
import { clientCommand } from "./ClientCommand.ts"
import { pluginListText } from "./terminal/PluginText.ts"
import { holdTable, streamTable } from "./terminal/Terminal.ts"

export const status = clientCommand("status", {
  description:
    "Show the health of the running process: its streams with condition, records and freshness, open holds, " +
    "and plugins",
  flags: {},
  request: (client) =>
    Effect.all({
      checks: client.readiness,
      streams: Effect.map(client.streams.streams(), ({ items }) => items),
      holds: Effect.map(client.holds.list({ query: { state: "open", limit: 1000 } }), ({ items }) => items),
      plugins: client.plugins.list()
    }),
  json: ({ plugins, ...rest }) => ({ ...rest, plugins: plugins.items }),
  text: ({ checks, holds, plugins, streams }) => {
    const failed = checks.filter((check) => !check.ok)
    return [
      `${failed.length === 0 ? "ready" : "not ready"}, ${streams.length} streams`,
      ...failed.map(({ reason }) => `  ${oneLine(reason ?? "")}`),
      ...(streams.length > 0 ? [`\n${streamTable(streams)}`] : []),
      ...(holds.length > 0 ? [`\nwaiting for a decision:\n${holdTable(holds)}`] : []),
      ...(plugins.items.length > 0 ? [`\n${pluginListText(plugins)}`] : [])
    ].join("\n")
  }
})
