/** `rollcall tail`: the events of the running process as they happen. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { parseEvent } from "./ApiClient.ts"
import { connect, runClientCommand } from "./ClientCommand.ts"
import { config, json } from "./Flags.ts"
import { awaitShutdownSignal, print } from "./Process.ts"
import { eventLine } from "./terminal/Terminal.ts"

export const tail = Command.make("tail", {
  json,
  config,
  after: Flag.String("after").pipe(
    Flag.withDescription("Start after this position of the event log (default: latest, which prints new events only)"),
    Flag.withMetavar("position"),
    Flag.withDefault("latest")
  )
}, ({ after, config, json }) =>
  Effect.gen(function*() {
    const { follow } = yield* connect(config)
    const show = (text: string) => print(json ? text : eventLine(parseEvent(text).data))
    yield* Effect.raceFirst(Stream.runForEach(follow(after), show), awaitShutdownSignal)
  }).pipe(runClientCommand)).pipe(
    Command.withDescription("Print the events of the running process as they happen"),
    Command.withExamples([{
      command: "rollcall tail --json | jq .data.kind",
      description: "Print JSON for another program"
    }])
  )
