/** `rollcall status`: the health of the running process. */
import * as Effect from "effect/Effect"
import { clientCommand } from "./ClientCommand.ts"
import { statusText } from "./terminal/StatusText.ts"

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
  text: statusText
})
