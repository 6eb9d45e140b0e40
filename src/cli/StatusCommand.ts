/** `rollcall status`: the health of the running process. */
import * as Effect from "effect/Effect"
import { clientCommand } from "./client/ClientCommand.ts"
import { type Status, statusText } from "./terminal/StatusText.ts"

export const status = clientCommand("status", {
  description:
    "Show the health of the running process: what does not work and why, its streams with condition, records and " +
    "freshness, open holds, and plugins",
  flags: {},
  request: (client) =>
    Effect.all({
      readiness: client.readiness,
      overview: client.currentOverview,
      streams: client.allStreams,
      holds: Effect.map(client.holds.list({ query: { state: "open", limit: 1000 } }), ({ items }) => items),
      plugins: client.plugins.list(),
      fleet: client.fleet.list()
    }).pipe(
      Effect.map(({ overview: { matters, omitted }, readiness: { cause, checks }, ...others }): Status => ({
        outage: cause,
        checks,
        matters,
        omitted,
        ...others
      }))
    ),
  text: statusText,
  json: (status) => ({ ...status, plugins: status.plugins.items, fleet: status.fleet.items })
})
