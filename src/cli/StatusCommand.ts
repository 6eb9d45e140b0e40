/** `rollcall status`: the health of the running process, once or redrawn until it is interrupted. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { timeOfDay } from "../telemetry/TerminalText.ts"
import type { ApiClient } from "./ApiClient.ts"
import { connect, runClientCommand } from "./ClientCommand.ts"
import { config, json, switchFlag } from "./Flags.ts"
import { awaitShutdownSignal, CommandError, print } from "./Process.ts"
import { statusText } from "./terminal/StatusText.ts"
import { standardOutput, watch as redraw } from "./terminal/Watch.ts"

const read = (client: ApiClient) =>
  Effect.all({
    checks: client.readiness,
    streams: client.allStreams,
    holds: Effect.map(client.holds.list({ query: { state: "open", limit: 1000 } }), ({ items }) => items),
    plugins: client.plugins.list(),
    fleet: client.fleet.list()
  })

const watchStatus = Effect.fnUntraced(function*(client: ApiClient, json: boolean) {
  if (json || !process.stdout.isTTY) {
    return yield* new CommandError({
      message: "--watch redraws a terminal, and the output is not one",
      hint: "Leave --watch out, and run the command as often as you need its output."
    })
  }
  const text = Effect.map(
    read(client),
    (status) => `${client.url}, ${timeOfDay(Date.now())}: ${statusText(status)}`
  )
  yield* Effect.raceFirst(redraw(text, standardOutput), awaitShutdownSignal)
})

export const status = Command.make("status", {
  watch: switchFlag("watch", "Redraw every two seconds until interrupted"),
  json,
  config
}, ({ config, json, watch }) =>
  Effect.gen(function*() {
    const client = yield* connect(config)
    if (watch) return yield* watchStatus(client, json)
    const status = yield* read(client)
    yield* print(
      json
        ? JSON.stringify({ ...status, plugins: status.plugins.items, fleet: status.fleet.items })
        : statusText(status)
    )
  }).pipe(runClientCommand)).pipe(
    Command.withDescription(
      "Show the health of the running process: what does not work and why, its streams with condition, records and " +
        "freshness, open holds, and plugins"
    ),
    Command.withExamples([{ command: "rollcall status --watch", description: "Follow a backfill or an outage" }])
  )
