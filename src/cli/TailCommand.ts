/** `rollcall tail`: the events of the running process as they happen. */
import * as Command from "effect/cli/Command"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { parseEvent } from "./client/ApiClient.ts"
import { connect, runClientCommand } from "./client/ClientCommand.ts"
import { showEvents } from "./client/Following.ts"
import { eventLine, eventLines } from "./terminal/EventLines.ts"
import { config, given, json, switchFlag, textFlag } from "./terminal/Flags.ts"
import { print } from "./terminal/Process.ts"

/** Events that arrive within this time are shown together: equal changes of several records are one line. */
const together = Duration.seconds(1)
const most = 10_000

const eventOf = (text: string) => parseEvent(text).data

export const tail = Command.make("tail", {
  json,
  config,
  unfolded: switchFlag("unfolded", "Print one line for each event, even if many records have the same change"),
  start: {
    after: textFlag(
      "after",
      "Start after this position of the event log (default: latest, which prints new events only)",
      "position"
    ),
    since: textFlag("since", "Start at the first event that was recorded at or after this time, RFC 3339", "time")
  },
  filter: {
    integration: textFlag("integration", "Only events of these integrations, comma-separated", "ids"),
    model: textFlag("model", "Only events of these models, comma-separated", "names"),
    kind: textFlag("kind", "Only events of these kinds, comma-separated: created, updated, deleted", "kinds"),
    transition: textFlag(
      "transition",
      "Only events with one of these transitions, comma-separated, such as hired",
      "names"
    )
  }
}, ({ config, filter, json, start, unfolded }) =>
  Effect.gen(function*() {
    const client = yield* connect(config)
    const from = Option.isNone(start.since) && Option.isNone(start.after) ? { after: "latest" } : given(start)
    yield* showEvents(client, { ...from, ...given(filter) }, json, (events) =>
      json
        ? Stream.runForEach(events, print)
        : unfolded
        ? Stream.runForEach(events, (text) => print(eventLine(eventOf(text))))
        : Stream.runForEach(
          Stream.groupedWithin(events, most, together),
          (some) => Effect.forEach(eventLines(some.map(eventOf)), print, { discard: true })
        ))
  }).pipe(runClientCommand)).pipe(
    Command.withDescription("Print the events of the running process as they happen"),
    Command.withExamples([{
      command: "rollcall tail --json | jq .data.kind",
      description: "Print JSON for another program"
    }, {
      command: "rollcall tail --transition hired --since 2026-03-01T00:00:00Z",
      description: "Print who was hired since a time, and who is hired from now on"
    }])
  )
