/** `rollcall tail`: the events of the running process as they happen. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { parseEvent } from "./ApiClient.ts"
import { connect, runClientCommand } from "./ClientCommand.ts"
import { config, given, json, textFlag } from "./Flags.ts"
import { awaitShutdownSignal, print } from "./Process.ts"
import { eventLine } from "./terminal/Terminal.ts"

export const tail = Command.make("tail", {
  json,
  config,
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
}, ({ config, filter, json, start }) =>
  Effect.gen(function*() {
    const { follow } = yield* connect(config)
    const show = (text: string) => print(json ? text : eventLine(parseEvent(text).data))
    const from = Option.isNone(start.since) && Option.isNone(start.after) ? { after: "latest" } : given(start)
    yield* Effect.raceFirst(Stream.runForEach(follow({ ...from, ...given(filter) }), show), awaitShutdownSignal)
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
