/** `rollcall status`: the health of the running process, once or redrawn until it is interrupted. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { timeOfDay } from "../telemetry/TerminalText.ts"
import type { ApiClient } from "./client/ApiClient.ts"
import { connect, runClientCommand } from "./client/ClientCommand.ts"
import { config, json, switchFlag } from "./terminal/Flags.ts"
import { awaitShutdownSignal, print, refuse } from "./terminal/Process.ts"
import { type Status, statusText } from "./terminal/StatusText.ts"
import { redrawInterval, standardOutput, watch as redraw } from "./terminal/Watch.ts"

const read = (client: ApiClient) =>
  Effect.all({
    readiness: client.readiness,
    streams: client.allStreams,
    holds: Effect.map(client.holds.list({ query: { state: "open", limit: 1000 } }), ({ items }) => items),
    plugins: client.plugins.list(),
    fleet: client.fleet.list()
  }).pipe(
    Effect.map(({ readiness: { cause, checks }, ...others }): Status => ({ outage: cause, checks, ...others }))
  )

const jsonOf = (status: Status): string =>
  JSON.stringify({ ...status, plugins: status.plugins.items, fleet: status.fleet.items })

/** With --json, a line every two seconds. A failed request then ends the command, because a program cannot read an error text between the lines. */
const watchStatus = Effect.fnUntraced(function*(client: ApiClient, json: boolean) {
  if (json) {
    const line = Effect.flatMap(read(client), (status) => print(jsonOf(status)))
    return yield* Effect.raceFirst(Effect.repeat(line, Schedule.spaced(redrawInterval)), awaitShutdownSignal)
  }
  if (!process.stdout.isTTY) {
    return yield* refuse(
      "--watch redraws a terminal, and the output is not one",
      "Add --json for a line of JSON every two seconds, or leave --watch out."
    )
  }
  const text = Effect.map(
    read(client),
    (status) => `${client.url}, ${timeOfDay(Date.now())}: ${statusText(status)}`
  )
  yield* Effect.raceFirst(redraw(text, standardOutput), awaitShutdownSignal)
})

export const status = Command.make("status", {
  watch: switchFlag("watch", "Redraw every two seconds until interrupted; with --json, print a line each time"),
  json,
  config
}, ({ config, json, watch }) =>
  Effect.gen(function*() {
    const client = yield* connect(config)
    if (watch) return yield* watchStatus(client, json)
    const status = yield* read(client)
    yield* print(json ? jsonOf(status) : statusText(status))
  }).pipe(runClientCommand)).pipe(
    Command.withDescription(
      "Show the health of the running process: what does not work and why, its streams with condition, records and " +
        "freshness, open holds, and plugins"
    ),
    Command.withExamples([{ command: "rollcall status --watch", description: "Follow a backfill or an outage" }])
  )
